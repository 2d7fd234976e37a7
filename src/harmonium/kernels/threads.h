// A pool of threads for tasks of a few microseconds.
//
// A job is a number of blocks that are independent of each other. Threads take the next block from a ticket, which has
// the number of the job in its upper and the next block in its lower half. So a thread that is late finds another
// number and takes nothing. Between jobs threads spin for a short time, since waking one takes as long as a product,
// and then sleep. Results do not depend on which thread computes a block.
#pragma once
#include <stdint.h>

typedef void (*task)(const void *job, long block, int thread);

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MOST_THREADS 64
#define SPINS 10000 // 0.1 to 0.5 ms
#define CLOSED 0xffffffffu

static struct {
    pthread_mutex_t busy, lock;
    pthread_cond_t wake;
    int threads; // that were started, with the caller
    _Atomic(task) run;
    _Atomic(const void *) job;
    atomic_long blocks, left;
    atomic_int wanted, sleeping;
    _Atomic uint64_t ticket;
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER,
          .threads = 1, .ticket = CLOSED};

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Take a block of the present job and compute it; 0 if there is none for this thread.
static int work(int thread) {
    uint64_t ticket = atomic_load(&pool.ticket);
    uint32_t block = (uint32_t)ticket;
    if (block == CLOSED) return 0;
    task run = atomic_load(&pool.run);
    const void *job = atomic_load(&pool.job);
    if (block >= atomic_load(&pool.blocks) || thread >= atomic_load(&pool.wanted)) return 0;
    if (!atomic_compare_exchange_strong(&pool.ticket, &ticket, ticket + 1)) return 1; // taken by another: try again
    run(job, block, thread);
    atomic_fetch_sub(&pool.left, 1);
    return 1;
}

static void *serve(void *argument) {
    int thread = (int)(intptr_t)argument;
    for (;;) {
        for (int k = 0; k < SPINS; k++) {
            if (work(thread)) k = 0;
            else pause_briefly();
        }
        pthread_mutex_lock(&pool.lock);
        uint64_t seen = atomic_load(&pool.ticket);
        atomic_fetch_add(&pool.sleeping, 1);
        while (atomic_load(&pool.ticket) >> 32 == seen >> 32) pthread_cond_wait(&pool.wake, &pool.lock);
        atomic_fetch_sub(&pool.sleeping, 1);
        pthread_mutex_unlock(&pool.lock);
    }
    return 0;
}

// A child of fork has only the thread that called it.
static void forget(void) {
    pthread_mutex_init(&pool.busy, 0);
    pthread_mutex_init(&pool.lock, 0);
    pthread_cond_init(&pool.wake, 0);
    pool.threads = 1;
    atomic_store(&pool.sleeping, 0);
    atomic_store(&pool.ticket, CLOSED);
}

// Start threads until there are as many as wanted or the system has no more.
static void grow(int wanted) {
    static int registered = 0;
    if (!registered) registered = !pthread_atfork(0, 0, forget);
    while (registered && pool.threads < wanted) {
        pthread_t thread;
        pthread_attr_t detached;
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        int failed = pthread_create(&thread, &detached, serve, (void *)(intptr_t)pool.threads);
        pthread_attr_destroy(&detached);
        if (failed) return;
        pool.threads++;
    }
}

// Compute all blocks with up to `threads` threads; with one if another thread of Python is using the pool.
static void parallel(task run, const void *job, long blocks, int threads) {
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads < 2 || blocks < 2 || pthread_mutex_trylock(&pool.busy)) {
        for (long block = 0; block < blocks; block++) run(job, block, 0);
        return;
    }
    grow(threads);
    uint64_t number = (atomic_load(&pool.ticket) >> 32) + 1;
    atomic_store(&pool.run, run);
    atomic_store(&pool.job, job);
    atomic_store(&pool.blocks, blocks);
    atomic_store(&pool.wanted, threads);
    atomic_store(&pool.left, blocks);
    atomic_store(&pool.ticket, number << 32);
    if (atomic_load(&pool.sleeping)) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.lock);
    }
    while (work(0)) {}
    for (int k = 0; atomic_load(&pool.left); k++) {
        if (k < SPINS) pause_briefly();
        else sched_yield();
    }
    atomic_store(&pool.ticket, (number << 32) | CLOSED); // before the next job changes what a late thread may read
    pthread_mutex_unlock(&pool.busy);
}
#else
#define MOST_THREADS 1
static void parallel(task run, const void *job, long blocks, int threads) {
    (void)threads;
    for (long block = 0; block < blocks; block++) run(job, block, 0);
}
#endif
