// What the C++ tests share: a condition that has to hold, and a test by its name.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                      \
        }                                                                                      \
    } while (0)

#define RUN(test)                                                                              \
    do {                                                                                       \
        test();                                                                                \
        std::printf("ok %s\n", #test);                                                         \
        std::fflush(stdout);                                                                   \
    } while (0)
