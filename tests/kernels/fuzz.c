// Random sizes, densities and numbers of threads against plain loops, for a build with sanitizers.
#include "../../src/harmonium/kernels/kernels.c"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

static uint64_t seed = 1;
static uint32_t below(uint32_t n) { return (uint32_t)(splitmix(&seed) % n); }
static float number(void) { return (float)below(2001) / 1000 - 1; }

// Memory of its own for every matrix, so that the sanitizer sees each access behind its end.
static float *states_of(long n, uint32_t percent, float off) {
    float *x = malloc(sizeof(float) * (size_t)n);
    for (long k = 0; k < n; k++) x[k] = below(100) < percent ? 1 : off;
    return x;
}

static float *numbers(long n) {
    float *x = malloc(sizeof(float) * (size_t)n);
    for (long k = 0; k < n; k++) x[k] = number();
    return x;
}

static void expect(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "wrong: %s\n", what);
    exit(1);
}

// The function of OpenMP that `use_team` expects, with threads that the sanitizer knows.
typedef struct {
    void (*member)(void *);
    void *argument;
} call;

static void *start(void *one) {
    ((call *)one)->member(((call *)one)->argument);
    return 0;
}

static void new_team(void (*member)(void *), void *argument, unsigned threads, unsigned flags) {
    pthread_t others[MOST_THREADS];
    call one = {member, argument};
    (void)flags;
    for (unsigned k = 1; k < threads; k++) pthread_create(&others[k], 0, start, &one);
    member(argument);
    for (unsigned k = 1; k < threads; k++) pthread_join(others[k], 0);
}

static void products(void) {
    long R = 1 + below(below(4) ? 70 : 1300), D = 1 + below(200), H = 1 + below(200);
    int threads = 1 + (int)below(4);
    float off = below(3) ? 0 : -1;
    float *x = states_of(R * D, below(101), off), *y = states_of(R * H, below(101), off), *z = numbers(R * H), *W = numbers(D * H);
    float *field = numbers(R * H), *back = numbers(R * D), *sums = malloc(sizeof(float) * (size_t)(D * H));
    memcpy(sums, W, sizeof(float) * (size_t)(D * H));
    expect(up(x, W, field, R, D, H, 1, threads) && down(y, W, back, R, D, H, 1, threads), "refused states");
    long other = below(6) ? (long)below((uint32_t)R) : -1;
    if (other >= 0) x[other * D + below((uint32_t)D)] = 0.5f;
    expect(correlate(x, z, sums, R, D, H, -0.5f, 1, threads), "refused a dense row");
    if (other >= 0) expect(!up(x, W, field, R, D, H, 1, threads), "took other values for states");
    for (int k = 0; k < 50; k++) {
        long r = below((uint32_t)R), i = below((uint32_t)D), j = below((uint32_t)H);
        double a = 0, b = 0, c = W[i * H + j];
        for (long s = 0; s < D; s++) a += (double)x[r * D + s] * W[s * H + j];
        for (long s = 0; s < H; s++) b += (double)y[r * H + s] * W[i * H + s];
        for (long s = 0; s < R; s++) c -= 0.5 * (double)x[s * D + i] * z[s * H + j];
        if (r != other) expect(fabs(a - field[r * H + j]) < 1e-4, "up");
        expect(fabs(b - back[r * D + i]) < 1e-4, "down");
        expect(fabs(c - sums[i * H + j]) < 1e-3, "correlate");
    }
    free(x), free(y), free(z), free(W), free(field), free(back), free(sums);
}

static void draws(void) {
    long n = 1 + below(9000), states = 1 + below(40), sites = 1 + below(3000);
    int threads = 1 + (int)below(4);
    float *p = numbers(n), *out = numbers(n), *q = numbers(sites * states), *one = numbers(sites * states);
    float *mean = numbers(sites * states), *bias = numbers(sites * states), width = (float)below(200);
    for (long k = 0; k < n; k++) p[k] = below(3) ? fabsf(p[k]) : (float)below(2);
    draw(p, out, n, splitmix(&seed), threads);
    for (long k = 0; k < n; k++) {
        expect(out[k] == 0 || out[k] == 1, "a draw is 0 or 1");
        expect((p[k] > 0 || out[k] == 0) && (p[k] < 1 || out[k] == 1), "a certain draw");
    }
    for (long k = 0; k < sites * states; k++) q[k] = below(2) ? fabsf(q[k]) : 0;
    for (long s = 0; s < sites; s++) q[s * states + below((uint32_t)states)] = 0.5f;
    draw_one(q, one, sites, states, splitmix(&seed), threads);
    for (long s = 0; s < sites; s++) {
        float total = 0;
        for (long k = 0; k < states; k++) {
            total += one[s * states + k];
            expect(one[s * states + k] == 0 || q[s * states + k] > 0, "an impossible state");
        }
        expect(total == 1, "one state of a site");
    }
    for (long k = 0; k < sites * states; k++) q[k] = width * number();
    softmax(q, bias, mean, 1, sites, states, threads);
    draw_softmax(q, bias, one, 1, sites, states, splitmix(&seed), threads);
    for (long s = 0; s < sites; s++) {
        double total = 0, drawn = 0, weights = 0;
        for (long k = s * states; k < (s + 1) * states; k++) {
            total += (double)mean[k];
            drawn += (double)one[k];
            weights += exp((double)(q[k] + bias[k]) - (double)(q[s * states] + bias[s * states]));
            expect(one[k] == 0 || mean[k] > 0, "an impossible state of a softmax");
        }
        expect(fabs(total - 1) < 1e-5 && drawn == 1, "a distribution over the states");
        expect(fabs((double)mean[s * states] * weights - 1) < 1e-4 || mean[s * states] < 1e-30f, "softmax");
    }
    free(p), free(out), free(q), free(one), free(mean), free(bias);
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 100;
    use_team(new_team);
    for (int k = 0; k < rounds; k++) products(), draws();
    printf("%d rounds\n", rounds);
}
