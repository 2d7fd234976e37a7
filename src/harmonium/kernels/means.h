// The softmax of units in a field, and draws from it.
#pragma once
#define RUN 2048 // numbers whose exponentials are computed at once
#define SAFE 60  // range of exponents c below the largest one for which sums of e^-c are precise

// e^x for x up to 88, to two units in the last place (Moshier's Cephes library); 0 below -87.
INLINE vec exponential(vec x) {
    const float magic = 0x1.8p23f; // a sum with it has the nearest whole number in its last bits
    vec shifted = x * 1.44269504f + magic, n = shifted - magic;
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f, p = same(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1;
    p = (vec)((words)p + ((words)shifted << 23)); // times 2^n
    return choose(x < same(-87), same(0), choose(x == x, p, x));
}

// A layer of units in a field: rows of sites, each with a number of states.
typedef struct {
    const float *field, *bias; // (rows, sites, states), (sites, states)
    float *out;
    long rows, sites, states;
    uint64_t key; // of draws
} layer;

// e^(field + bias - c) of neighboring sites, where c is the largest exponent: of all of them, or of each site if the
// exponents are far apart.
static void exponentials(const float *field, const float *bias, float *out, long sites, long states) {
    long n = sites * states;
    vec highest = same(-INFINITY), lowest = same(INFINITY);
    for (long k = 0; k < n; k += LANES) {
        ints inside = first(n - k);
        vec x = load(field + k, n - k) + load(bias + k, n - k);
        highest = choose(inside & (x > highest), x, highest);
        lowest = choose(inside & (x < lowest), x, lowest);
        store(out + k, x, n - k);
    }
    float top = highest[0], bottom = lowest[0];
    for (int k = 1; k < LANES; k++) {
        top = highest[k] > top ? highest[k] : top;
        bottom = lowest[k] < bottom ? lowest[k] : bottom;
    }
    if (!(top - bottom < SAFE)) {
        for (long site = 0; site < sites; site++) {
            float *x = out + site * states, own = x[0];
            for (long q = 1; q < states; q++) own = x[q] > own ? x[q] : own;
            for (long q = 0; q < states; q++) x[q] -= own;
        }
        top = 0;
    }
    for (long k = 0; k < n; k += LANES) store(out + k, exponential(load(out + k, n - k) - same(top)), n - k);
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef double totals __attribute__((vector_size(32)));

static void softmax_run(const layer *l, const float *e, long first_site, long sites) {
    long states = l->states, q;
    for (long s = 0; s < sites; s++, e += states) {
        float *out = l->out + (first_site + s) * states;
        four sums = {0};
        for (q = 0; q + 4 <= states; q += 4) sums += *(const four *)(e + q);
        float total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        for (; q < states; q++) total += e[q];
        float factor = 1 / total;
        for (q = 0; q + 4 <= states; q += 4) *(four *)(out + q) = *(const four *)(e + q) * factor;
        for (; q < states; q++) out[q] = e[q] * factor;
    }
}

// A state with a probability in proportion to p, by inversion of the distribution function; in double, so that rare
// states are precise. The order is 0, 4, 8, …, 1, 5, …, so that a state is found in one of four sums.
INLINE long chosen(const float *p, long states, uint32_t random) {
    totals sums = {0};
    long q = 0;
    for (; q + 4 <= states; q += 4) sums += __builtin_convertvector(*(const four *)(p + q), totals);
    double a = sums[0] + (q < states ? (double)p[q] : 0), b = a + (sums[1] + (q + 1 < states ? (double)p[q + 1] : 0));
    double c = b + (sums[2] + (q + 2 < states ? (double)p[q + 2] : 0)), reached = 0;
    double target = ((double)random + 0.5) * 0x1p-32 * (c + sums[3]), begins[] = {0, a, b, c};
    long at = (a <= target) + (b <= target) + (c <= target);
    double begin = begins[at];
    for (q = at; q + 4 < states; q += 4) at += begin + (reached += (double)p[q]) <= target ? 4 : 0;
    return at;
}

static void draw_run(const layer *l, const float *p, const uint32_t *random, long first_site, long sites) {
    float *out = l->out + first_site * l->states;
    memset(out, 0, (size_t)(sites * l->states) * 4);
    for (long s = 0; s < sites; s++) out[s * l->states + chosen(p + s * l->states, l->states, random[s])] = 1;
}

// A chunk of all sites, in runs of neighbors of one row.
INLINE void sites_of_chunk(const layer *l, long chunk, int draws) {
    float e[RUN];
    uint32_t random[CHUNK];
    long begin = chunk * CHUNK, end = least(begin + CHUNK, l->rows * l->sites);
    if (draws) random_words(random, l->key, (uint64_t)chunk);
    for (long site = begin, run; site < end; site += run) {
        long in_row = site % l->sites;
        run = least(least(RUN / l->states, l->sites - in_row), end - site);
        exponentials(l->field + site * l->states, l->bias + in_row * l->states, e, run, l->states);
        if (draws) draw_run(l, e, random + site - begin, site, run);
        else softmax_run(l, e, site, run);
    }
}

static void softmax_chunk(const void *job, long chunk, int thread) { (void)thread, sites_of_chunk(job, chunk, 0); }
static void draw_softmax_chunk(const void *job, long chunk, int thread) { (void)thread, sites_of_chunk(job, chunk, 1); }

// out = softmax of field + bias over the states, for fields (rows, sites, states) and biases (sites, states).
EXPORT int softmax(const float *field, const float *bias, float *out, long rows, long sites, long states, int threads) {
    layer job = {field, bias, out, rows, sites, states, 0};
    if (states > RUN) return 0;
    parallel(softmax_chunk, &job, (rows * sites + CHUNK - 1) / CHUNK, threads);
    return 1;
}

// One-hot draws from this softmax.
EXPORT int draw_softmax(const float *field, const float *bias, float *out, long rows, long sites, long states,
                        uint64_t key, int threads) {
    layer job = {field, bias, out, rows, sites, states, key};
    if (states > RUN) return 0;
    parallel(draw_softmax_chunk, &job, (rows * sites + CHUNK - 1) / CHUNK, threads);
    return 1;
}

static void draw_one_chunk(const void *job, long chunk, int thread) {
    const layer *l = job;
    uint32_t random[CHUNK];
    long begin = chunk * CHUNK;
    (void)thread;
    random_words(random, l->key, (uint64_t)chunk);
    draw_run(l, l->field + begin * l->states, random, begin, least(CHUNK, l->sites - begin));
}

// One-hot draws for n sites with probabilities p (n, states).
EXPORT int draw_one(const float *p, float *out, long n, long states, uint64_t key, int threads) {
    layer job = {p, 0, out, 1, n, states, key};
    parallel(draw_one_chunk, &job, (n + CHUNK - 1) / CHUNK, threads);
    return 1;
}
