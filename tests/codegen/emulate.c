/* Runs a device kernel's code on the host: the threads of a block take turns, each until it waits for others.

   A thread waits in a shuffle, a barrier or while it looks for what another block leaves.  Blocks run one after the
   other.  Where a whole turn makes no progress the launch fails. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST 1024
#define STACK (1 << 16)

typedef struct {
    void *stack;
    int done;
    uint64_t shuffles, barriers, warps;
    uint32_t slot[2];
} Thread;

static Thread threads[MOST];
static char *stacks;
static void *main_stack;
static int current, block;
static uint32_t place[3], grid[3];
static void (*kernel)(uint64_t *);
static uint64_t *parameters;
static uint64_t steps;

void swap_stacks(void **from, void *to);
__asm__(".text\n.globl swap_stacks\nswap_stacks:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

static void yield(void) { swap_stacks(&threads[current].stack, main_stack); }

static void begin(void) {
    kernel(parameters);
    threads[current].done = 1;
    steps++;
    yield();
}

uint32_t sim_tid_x(void) { return current; }
uint32_t sim_ctaid_x(void) { return place[0]; }
uint32_t sim_ctaid_y(void) { return place[1]; }
uint32_t sim_ctaid_z(void) { return place[2]; }
uint32_t sim_nctaid_x(void) { return grid[0]; }
uint32_t sim_nctaid_y(void) { return grid[1]; }

static uint32_t exchange(uint32_t value, int source) {
    Thread *me = &threads[current];
    int first = current & ~31, last = first + 32 < block ? first + 32 : block;
    uint64_t turn = me->shuffles++;
    me->slot[turn & 1] = value;
    steps++;
    for (int t = first; t < last; t++)
        while (!threads[t].done && threads[t].shuffles <= turn) yield();
    Thread *other = &threads[first + source];
    return other->done && other->shuffles <= turn ? 0xdeadbeef : other->slot[turn & 1];
}
uint32_t sim_shfl_down(uint32_t mask, uint32_t value, uint32_t by, uint32_t clamp) {
    uint32_t lane = current & 31, source = lane + by;
    return exchange(value, source > 31 ? lane : source);
}
uint32_t sim_shfl_up(uint32_t mask, uint32_t value, uint32_t by, uint32_t clamp) {
    int lane = current & 31, source = lane - (int)by;
    return exchange(value, source < 0 ? lane : source);
}
uint32_t sim_shfl_idx(uint32_t mask, uint32_t value, uint32_t which, uint32_t clamp) {
    return exchange(value, which & 31);
}
void sim_barrier(void) {
    uint64_t turn = threads[current].barriers++;
    steps++;
    for (int t = 0; t < block; t++)
        while (!threads[t].done && threads[t].barriers <= turn) yield();
}
void sim_warp(uint32_t mask) {
    int first = current & ~31;
    uint64_t turn = threads[current].warps++;
    steps++;
    for (int t = first; t < first + 32 && t < block; t++)
        while (!threads[t].done && threads[t].warps <= turn) yield();
}
void sim_pause(void) { yield(); }

/* 0, or 1 where nothing moves any more. */
int sim_launch(void (*code)(uint64_t *), uint32_t gx, uint32_t gy, uint32_t size, uint64_t *words) {
    if (!stacks) stacks = mmap(0, (size_t)MOST * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kernel = code, parameters = words, block = size;
    grid[0] = gx, grid[1] = gy, grid[2] = 1;
    for (place[1] = 0; place[1] < gy; place[1]++)
        for (place[0] = 0; place[0] < gx; place[0]++) {
            for (int t = 0; t < block; t++) {
                memset(&threads[t], 0, sizeof(Thread));
                uint64_t *top = (uint64_t *)(stacks + (size_t)(t + 1) * STACK) - 3; /* as a call leaves it */
                *--top = (uint64_t)begin;
                top -= 6;
                threads[t].stack = top;
            }
            for (int left = block; left;) {
                uint64_t before = steps;
                left = 0;
                for (current = 0; current < block; current++)
                    if (!threads[current].done) {
                        swap_stacks(&main_stack, threads[current].stack);
                        left += !threads[current].done;
                    }
                if (left && before == steps) return 1;
            }
        }
    return 0;
}

/* The processor's first guesses at 1 / sqrt(x), here as good as they get. */
float sim_rsqrt_f(float x) { return 1 / sqrtf(x); }
double sim_rsqrt(double x) { return 1 / sqrt(x); }
