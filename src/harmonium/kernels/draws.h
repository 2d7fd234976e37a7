// Draws of binary states. Random numbers depend on the key and on the place of an entry alone, not on the threads.
#pragma once
#define CHUNK 2048  // entries with one seed
#define STREAMS 16  // generators side by side, for every instruction set
#define GROUP (STREAMS / LANES)

INLINE uint64_t splitmix(uint64_t *state) { // Steele, Lea & Flood (2014)
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

INLINE words rotated(words x, int k) { return x << k | x >> (32 - k); }

// CHUNK random words by xoshiro128++ (Blackman & Vigna 2021).
static void random_words(uint32_t *out, uint64_t key, uint64_t chunk) {
    words s[4][GROUP];
    uint64_t state = chunk;
    state = splitmix(&state) ^ key;
    for (int k = 0; k < 4; k++) {
        uint32_t seeds[STREAMS];
        for (int j = 0; j < STREAMS; j += 2) {
            uint64_t z = splitmix(&state);
            memcpy(seeds + j, &z, 8);
        }
        memcpy(s[k], seeds, sizeof seeds);
    }
    for (long i = 0; i < CHUNK; i += STREAMS)
        for (int g = 0; g < GROUP; g++) {
            words found = rotated(s[0][g] + s[3][g], 7) + s[0][g], shifted = s[1][g] << 9;
            s[2][g] ^= s[0][g];
            s[3][g] ^= s[1][g];
            s[1][g] ^= s[2][g];
            s[0][g] ^= s[3][g];
            s[2][g] ^= shifted;
            s[3][g] = rotated(s[3][g], 11);
            memcpy(out + i + g * LANES, &found, sizeof found);
        }
}

typedef struct {
    const float *p;
    float *out;
    long n;
    uint64_t key;
} drawing;

static void draw_chunk(const void *job, long chunk, int thread) {
    const drawing *d = job;
    uint32_t bits31[CHUNK];
    (void)thread;
    random_words(bits31, d->key, (uint64_t)chunk);
    for (long i = chunk * CHUNK, k = 0; k < CHUNK && i + k < d->n; k += LANES) {
        ints random;
        memcpy(&random, bits31 + k, sizeof random);
        random = (ints)((words)random >> 1);
        vec u = (__builtin_convertvector(random, vec) + 0.5f) * 0x1p-31f; // in (0, 1]; 1 by rounding
        u = choose(u < same(1), u, same(1 - 0x1p-24f));
        long left = d->n - i - k;
        store(d->out + i + k, choose(u < load(d->p + i + k, left), same(1), same(0)), left);
    }
}

// out = 1 with probability p, otherwise 0; exact for p = 0 and p = 1, elsewhere to 2^-25.
EXPORT int draw(const float *p, float *out, long n, uint64_t key, int threads) {
    drawing job = {p, out, n, key};
    parallel(draw_chunk, &job, (n + CHUNK - 1) / CHUNK, n < 4 * CHUNK ? 1 : threads);
    return 1;
}
