// The three products of a coupling W (lower x upper) with states 0 and 1, each the sum of the rows of a matrix that the
// ones of a row of states select; or with states -1 and 1, the sum of all rows with these signs.
//
// Four neighboring states have 16 patterns. The sums of the four rows of the matrix for every pattern are a table, and
// a row of states is a list of its patterns: the product is the sum of the rows of the table in the list, one for every
// four states that are not all zero. The patterns of signs have 16 sums, too, but none of them is skipped. A table has
// the 256 patterns of one word of 64 states and 32 columns, so that it stays in the first cache of a core, beside the
// sums of a panel of rows. Rows of states with lists of the same length follow each other, so that the processor
// predicts where a list ends.
#pragma once
#define GROUPS 16      // of four states in a word
#define PATTERNS 16    // of a group
#define PANEL_WORDS 16 // a panel is the rows of states that are computed at once, in words
#define PANEL (PANEL_WORDS * 64)
#define MOST_DENSE 4   // rows with other values that `correlate` accepts
#define READ_ROWS 16   // that are read at once

// Rows of states, as bits and as lists of patterns.
typedef struct {
    long rows, inner, words;
    int signs;                    // whether the states are -1 and 1 instead of 0 and 1
    uint64_t *bits;               // (rows, words)
    long *ones;                   // (rows)
    uint8_t *lists, *lengths;     // (words, rows, GROUPS), (words, rows); an entry is group << 4 | pattern
    uint16_t *order;              // (words, rows): the rows by the length of their lists
    uint16_t (*ends)[GROUPS + 1]; // (words): ends in `order` of the rows with lists up to length 0, 1, …
    uint64_t (*used)[2];          // (words): the states that are 1 in some row; nonzero in groups with two of them in a row
} states;

// What to compute: out (rows of states x columns) += states · matrix (inner x columns).
typedef struct {
    const states *of;
    const float *matrix; // (inner, columns), or (columns, inner) if transposed
    long inner, columns;
    float scale;
    float *out;
    row *memory; // for each thread a table and sums, see `needed`
    int add;     // to what is in out; otherwise it begins with zeros
    int dense;   // number of further rows of the matrix, which every row of states has with a factor of its own
    const float *factors[MOST_DENSE], *further[MOST_DENSE];
} product;

// -- memory ----------------------------------------------------------------------------------------------------------

static size_t whole(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Memory of the calling thread, at a multiple of 64, that is kept between calls, because new pages take as long as a
// product.
static char *scratch(size_t bytes) {
    static _Thread_local char *kept;
    static _Thread_local size_t size;
    if (bytes > size) {
        free(kept);
        kept = malloc((size = bytes) + 63);
        if (!kept) size = 0;
    }
    return kept ? kept + (-(uintptr_t)kept & 63) : 0;
}

// Give `s` its memory at `p`; returns the end of it. With p = 0, the size of the memory.
static char *place(states *s, long rows, long inner, char *p) {
    size_t words = (size_t)(inner + 63) / 64, cells = words * (size_t)rows;
    *s = (states){.rows = rows, .inner = inner, .words = (long)words, .bits = (uint64_t *)p};
    s->ones = (long *)(p += whole(cells * 8));
    s->lists = (uint8_t *)(p += whole((size_t)rows * sizeof(long)));
    s->lengths = (uint8_t *)(p += whole(cells * GROUPS));
    s->order = (uint16_t *)(p += whole(cells));
    s->ends = (void *)(p += whole(cells * 2));
    s->used = (void *)(p += whole(words * sizeof *s->ends));
    return p + whole(words * sizeof *s->used);
}

// -- reading states --------------------------------------------------------------------------------------------------

// Whether states are signs: whether the first of them that is not 1 is -1, in a row of states.
static int are_signs(const float *x, long rows, long n) {
    for (long r = 0; r < rows; r++)
        for (long k = 0; k < n; k++) {
            float one = x[r * n + k];
            if (one == 0 || one == -1) return one == -1;
            if (one != 1) break; // a row with other values
        }
    return 0;
}

// The bits of one row of states; the number of ones, or -1 if another value than 1 and 0, or -1, is among them.
INLINE long read_row(const float *x, long n, int signs, uint64_t *out) {
    vec off = signs ? same(-1) : same(0);
    ints other = {0};
    long ones = 0;
    for (long k = 0; k * 64 < n; k++) {
        uint64_t word = 0;
        for (long s = k * 64; s < least(k * 64 + 64, n); s += LANES) {
            vec v = load(x + s, n - s);
            ints on = v == same(1);
            other |= ~on & (v != off) & first(n - s);
            word |= bits(on) << (s & 63);
        }
        out[k] = word;
        ones += __builtin_popcountll(word);
    }
    return bits(other) ? -1 : ones;
}

typedef struct {
    const float *x;
    long rows, n;
    int signs;
    uint64_t *bits; // (rows, words)
    long *ones;     // (rows) numbers of ones, or -1
} reading;

static void read_rows(const void *job, long block, int thread) {
    const reading *all = job;
    (void)thread;
    for (long r = block * READ_ROWS; r < least((block + 1) * READ_ROWS, all->rows); r++)
        all->ones[r] = read_row(all->x + r * all->n, all->n, all->signs, all->bits + r * ((all->n + 63) / 64));
}

// Read all rows; 0 if more than `others` have other values, or the part `most` of the states or more are ones.
static int read_all(const reading *all, int others, double most, int threads) {
    reading rest = *all;
    double ones = 0, limit = all->signs ? INFINITY : most * (double)all->rows * (double)all->n;
    read_rows(all, 0, 0); // first, because of data that are no states at all
    for (long r = 0; r < least(READ_ROWS, all->rows); r++) others -= all->ones[r] < 0;
    if (others < 0) return 0;
    long first = least(READ_ROWS, all->rows);
    rest.x += first * all->n, rest.bits += first * ((all->n + 63) / 64), rest.ones += first, rest.rows -= first;
    parallel(read_rows, &rest, (rest.rows + READ_ROWS - 1) / READ_ROWS, threads);
    for (long r = first; r < all->rows; r++) others -= all->ones[r] < 0;
    for (long r = 0; r < all->rows; r++) ones += all->ones[r] < 0 ? 0 : (double)all->ones[r];
    return others >= 0 && ones <= limit;
}

// Bits that are set in the groups with at least two ones.
INLINE uint64_t several(uint64_t x) {
    return (x & x >> 1 & 0x7777777777777777) | (x & x >> 2 & 0x3333333333333333) | (x & x >> 3 & 0x1111111111111111);
}

// The number of groups of a word with states, even because lists have even lengths.
INLINE int groups(const states *s, long word) { return (int)least((s->inner - word * 64 + 7) / 8 * 2, GROUPS); }

// The lists of one word of every row, and what follows from them.
static void list_word(const void *job, long word, int thread) {
    const states *s = job;
    uint8_t *lists = s->lists + word * s->rows * GROUPS, *lengths = s->lengths + word * s->rows;
    uint16_t *order = s->order + word * s->rows, *ends = s->ends[word];
    uint16_t many[GROUPS + 1] = {0}, next[GROUPS + 1], total = 0;
    uint64_t some = 0, two = 0;
    const int last = groups(s, word), all = s->signs;
    (void)thread;
    for (long r = 0; r < s->rows; r++) {
        uint64_t left = s->bits[r * s->words + word];
        uint8_t *list = lists + r * GROUPS;
        int n = 0;
        some |= left;
        two |= several(left);
        for (int group = 0; group < last; group++, left >>= 4) { // without a jump that the states decide
            list[n] = (uint8_t)(group << 4 | (left & 15));
            n += all | ((left & 15) != 0);
        }
        if (n & 1) list[n++] = 0; // pattern 0, so that lengths are even
        lengths[r] = (uint8_t)n;
        many[n]++;
    }
    s->used[word][0] = some;
    s->used[word][1] = two;
    for (int n = 0; n <= GROUPS; n++) {
        next[n] = total;
        ends[n] = total = (uint16_t)(total + many[n]);
    }
    for (long r = 0; r < s->rows; r++) order[next[lengths[r]]++] = (uint16_t)r;
}

// -- one block of 32 columns -----------------------------------------------------------------------------------------

// The sums of the patterns with several ones, from the entries of single states; of parts `first` to `last` of a row.
INLINE void add_up(row *entry, int first, int last) {
    for (int s = 1; s < 4; s++)
        for (int low = 1; low < 1 << s; low++)
            for (int k = first; k < last; k++) entry[1 << s | low].part[k] = entry[low].part[k] + entry[1 << s].part[k];
}

// The same for signs. Pattern 0 has four minus signs, and every other one differs from a smaller one in one sign.
INLINE void add_signed(row *entry, int first, int last) {
    for (int k = first; k < last; k++) {
        vec single[4];
        for (int s = 0; s < 4; s++) single[s] = entry[1 << s].part[k];
        entry[0].part[k] = -((single[0] + single[1]) + (single[2] + single[3]));
        for (int s = 0; s < 4; s++)
            for (int low = 0; low < 1 << s; low++)
                entry[1 << s | low].part[k] = entry[low].part[k] + (single[s] + single[s]);
    }
}

INLINE void table_of_rows(row *table, const product *p, long word, long column, long n) {
    uint64_t some = p->of->used[word][0], two = p->of->used[word][1];
    const int last = groups(p->of, word), signs = p->of->signs;
    for (int group = 0; group < last; group++, some >>= 4, two >>= 4) {
        long i = word * 64 + group * 4;
        row *entry = table + group * PATTERNS;
        if (!signs && !(some & 15)) continue;
        for (int s = 0; s < 4; s++)
            entry[1 << s] = i + s < p->inner ? scaled(load_row(p->matrix + (i + s) * p->columns + column, n), p->scale)
                                             : (row){{{0}}};
        if (signs) add_signed(entry, 0, PARTS);
        else if (two & 15) add_up(entry, 0, PARTS);
    }
}

// The same from a transposed matrix.
INLINE void table_of_columns(row *table, const product *p, long word, long column, long n) {
    const int last = groups(p->of, word) * 4, signs = p->of->signs;
    for (int part = 0; part < PARTS && part * LANES < n; part++)
        for (long j = 0; j < last; j += LANES) {
            vec r[LANES];
            long i = word * 64 + j;
            for (int k = 0; k < LANES; k++) {
                long c = part * LANES + k;
                r[k] = c < n ? load(p->matrix + (column + c) * p->inner + i, p->inner - i) : same(0);
            }
            transpose(r);
            for (int group = 0; group < LANES / 4; group++) {
                row *entry = table + (j / 4 + group) * PATTERNS;
                for (int s = 0; s < 4; s++) entry[1 << s].part[part] = r[group * 4 + s];
                if (signs) add_signed(entry, part, part + 1);
                else add_up(entry, part, part + 1);
            }
        }
}

// a plus the rows of the table in a list of even length.
INLINE row gather(row a, const row *table, const uint8_t *list, int n) {
    for (int k = 0; k < n; k += 2) a = sum(a, sum(table[list[k]], table[list[k + 1]]));
    return a;
}

static size_t needed(long rows) { return (size_t)(GROUPS * PATTERNS + rows); } // rows of memory of a thread

INLINE void columns(const product *p, long block, int thread, const int transposed) {
    const states *s = p->of;
    row *table = p->memory + (size_t)thread * needed(s->rows), *sums = table + GROUPS * PATTERNS;
    long column = block * BLOCK, n = p->columns - column;
    memset(sums, 0, sizeof(row) * (size_t)s->rows);
    for (int group = 0; group < GROUPS; group++) table[group * PATTERNS] = (row){{{0}}};
    for (long word = 0; word < s->words; word++) {
        if (transposed) table_of_columns(table, p, word, column, n);
        else table_of_rows(table, p, word, column, n);
        const uint16_t *order = s->order + word * s->rows, *ends = s->ends[word];
        for (int length = 2; length <= GROUPS; length += 2)
            for (long k = ends[length - 2]; k < ends[length]; k++) {
                long r = order[k];
                sums[r] = gather(sums[r], table, s->lists + (word * s->rows + r) * GROUPS, length);
            }
    }
    row further[MOST_DENSE];
    for (int k = 0; k < p->dense; k++) further[k] = load_row(p->further[k] + column, n);
    for (long r = 0; r < s->rows; r++) {
        float *out = p->out + r * p->columns + column;
        row total = p->add ? sum(load_row(out, n), sums[r]) : sums[r];
        for (int k = 0; k < p->dense; k++) // whose bits are zeros
            total = sum(total, scaled(further[k], p->scale * (p->factors[k][r] + (float)s->signs)));
        store_row(out, total, n);
    }
}

static void from_rows(const void *job, long block, int thread) { columns(job, block, thread, 0); }
static void from_columns(const void *job, long block, int thread) { columns(job, block, thread, 1); }

// Compute a product, once the bits of the states are there.
static void compute(const product *p, int transposed, int threads) {
    parallel(list_word, p->of, p->of->words, threads);
    parallel(transposed ? from_columns : from_rows, p, (p->columns + BLOCK - 1) / BLOCK, threads);
}

// -- the products ----------------------------------------------------------------------------------------------------

static int limited(int threads) { return threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads; }

static int multiply(const float *x, const float *W, float *out, long rows, long inner, long columns, int transposed,
                    double most, int threads) {
    states s;
    int signs = are_signs(x, rows, inner);
    threads = limited(threads);
    size_t tables = sizeof(row) * needed(least(rows, PANEL)) * (size_t)threads;
    char *memory = scratch(tables + (size_t)place(&s, least(rows, PANEL), inner, 0));
    if (!memory) return 0;
    for (long first = 0; first < rows; first += PANEL) {
        place(&s, least(rows - first, PANEL), inner, memory + tables);
        s.signs = signs;
        if (!read_all(&(reading){x + first * inner, s.rows, inner, signs, s.bits, s.ones}, 0, most, threads)) return 0;
        product p = {&s, W, inner, columns, 1, out + first * columns, (row *)memory};
        compute(&p, transposed, threads);
    }
    return 1;
}

// out = x W for states x (rows x lower), at most the part `most` of them ones unless they are signs.
EXPORT int up(const float *x, const float *W, float *out, long rows, long lower, long upper, double most, int threads) {
    return multiply(x, W, out, rows, lower, upper, 0, most, threads);
}

// out = y W^T for states y (rows x upper).
EXPORT int down(const float *y, const float *W, float *out, long rows, long lower, long upper, double most, int threads) {
    return multiply(y, W, out, rows, upper, lower, 1, most, threads);
}

// Bit c of word k becomes bit k of word c.
static void transpose_bits(uint64_t w[64]) {
    uint64_t low = 0xffffffff;
    for (int j = 32; j; j >>= 1, low ^= low << j)
        for (int k = 0; k < 64; k = (k + j + 1) & ~j) {
            uint64_t change = (w[k] >> j ^ w[k + j]) & low;
            w[k] ^= change << j;
            w[k + j] ^= change;
        }
}

typedef struct {
    const uint64_t *read; // (rows, words)
    long words, first;
    const states *to; // its bits are those of columns of `read` from word `first` on
} transposing;

static void transpose_squares(const void *job, long k, int thread) {
    const transposing *t = job;
    const states *s = t->to;
    (void)thread;
    for (long w = 0; w * 64 < s->rows; w++) {
        uint64_t square[64];
        for (int b = 0; b < 64; b++) square[b] = t->read[(k * 64 + b) * t->words + t->first + w];
        transpose_bits(square);
        for (long b = 0; b < least(64, s->rows - w * 64); b++) s->bits[(w * 64 + b) * s->words + k] = square[b];
    }
}

// W += scale x^T y for states x (rows x lower) and any y (rows x upper): the sums of the rows of y that the columns
// of x select. A few rows of x may have other values.
EXPORT int correlate(const float *x, const float *y, float *W, long rows, long lower, long upper, float scale, double most,
              int threads) {
    long words = (lower + 63) / 64, panels = (words + PANEL_WORDS - 1) / PANEL_WORDS, padded = (rows + 63) / 64 * 64;
    states s;
    int signs = are_signs(x, rows, lower);
    threads = limited(threads);
    size_t tables = sizeof(row) * needed(PANEL) * (size_t)threads, read_size = whole((size_t)(padded * words) * 8);
    size_t ones_size = whole((size_t)rows * sizeof(long));
    char *memory = scratch(tables + read_size + ones_size + (size_t)place(&s, PANEL, rows, 0));
    if (!memory) return 0;
    uint64_t *read = (uint64_t *)(memory + tables); // (padded, words)
    long *ones = (long *)(memory + tables + read_size), dense[MOST_DENSE];
    product p = {&s, y, rows, upper, scale, W, (row *)memory, .add = 1};
    if (!read_all(&(reading){x, rows, lower, signs, read, ones}, MOST_DENSE, most, threads)) return 0;
    memset(read + rows * words, 0, (size_t)((padded - rows) * words) * 8);
    for (long r = 0; r < rows; r++)
        if (ones[r] < 0) {
            dense[p.dense++] = r;
            memset(read + r * words, 0, (size_t)words * 8);
        }
    for (long panel = 0; panel < panels; panel++) {
        long first = panel * words / panels, next = (panel + 1) * words / panels;
        place(&s, least(next * 64, lower) - first * 64, rows, memory + tables + read_size + ones_size);
        s.signs = signs;
        parallel(transpose_squares, &(transposing){read, words, first, &s}, s.words, threads);
        p.out = W + first * 64 * upper;
        for (int k = 0; k < p.dense; k++) {
            p.factors[k] = x + dense[k] * lower + first * 64;
            p.further[k] = y + dense[k] * upper;
        }
        compute(&p, 0, threads);
    }
    return 1;
}
