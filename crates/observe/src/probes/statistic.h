// Count, total, least, most and a histogram of one named thing. statistic.rs has the same buckets.

#pragma once

#include "kernel.h"

#define BUCKETS 32

struct statistic {
    // What it is of, in a table that is looked through.
    u32 event;
    u32 is_used;
    u64 count;
    // Charged already, also of what has not ended.
    u64 total;
    u64 min;
    u64 max;
    // Bucket 0: below 1024 ns. Bucket n: from 2^(9+n) ns to twice that. The last: all that is longer.
    u32 buckets[BUCKETS];
};

INLINE u32 bucket_of(u64 ns)
{
    u64 rest = ns >> 10;
    u32 bucket = 0;
    if (rest >> 32)
        return BUCKETS - 1;
    for (u32 bits = 16; bits; bits >>= 1)
        if (rest >> bits) {
            rest >>= bits;
            bucket += bits;
        }
    bucket += rest ? 1 : 0;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

// One more has ended, and was so long. Its time is in the total already.
INLINE void count_length(struct statistic *one, u64 ns)
{
    u32 bucket = bucket_of(ns);
    if (!one->count || ns < one->min)
        one->min = ns;
    if (ns > one->max)
        one->max = ns;
    one->count += 1;
    HIDE(bucket);
    if (bucket < BUCKETS)
        one->buckets[bucket] += 1;
}
