// Blocks of a job on the threads of torch.
//
// A team is a function that runs another one on several threads at once: GOMP_parallel of the OpenMP library that torch
// has loaded. So there is one set of threads, and none of them waits for a core on which another one spins. Without a
// team a job runs on one thread. Members take blocks from a common count, and results do not depend on who computes a
// block.
#pragma once
#include <stdatomic.h>

#define MOST_THREADS 64

typedef void (*task)(const void *job, long block, int thread);
typedef void (*team_function)(void (*member)(void *), void *argument, unsigned threads, unsigned flags);

static team_function team = 0;

// Use this function for several threads; 0 for none.
EXPORT void use_team(team_function given) { team = given; }

typedef struct {
    task run;
    const void *job;
    long blocks;
    atomic_long next;    // block
    atomic_int members; // that have begun
} shared_job;

static void take_blocks(void *argument) {
    shared_job *s = argument;
    int thread = atomic_fetch_add(&s->members, 1);
    for (long block; (block = atomic_fetch_add(&s->next, 1)) < s->blocks;) s->run(s->job, block, thread);
}

// Compute all blocks with up to `threads` threads.
static void parallel(task run, const void *job, long blocks, int threads) {
    shared_job shared = {run, job, blocks, 0, 0};
    if (threads < 2 || blocks < 2 || !team) take_blocks(&shared);
    else team(take_blocks, &shared, (unsigned)(threads < MOST_THREADS ? threads : MOST_THREADS), 0);
}
