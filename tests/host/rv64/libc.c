#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static __thread int mine = 5;
static jmp_buf back;

static int by(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void last(void) { puts("at exit"); }

static void memory(void)
{
    char *large = malloc(1 << 18);
    memset(large, 7, 1 << 18);
    large = realloc(large, 3 << 18);
    printf("%d %d\n", large[0], large[(1 << 18) - 1]);
    free(large);
    char *at = mmap(0, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at[4096] = 1;
    printf("%d %d\n", munmap(at, 4096), at[4096]);
    at = mremap(at + 4096, 4 * 4096, 40 * 4096, MREMAP_MAYMOVE);
    printf("%d %d %d\n", at[0], at[39 * 4096], mprotect(at, 4096, PROT_READ));
    long sum = 0;
    for (int i = 0; i < 200; i++) {
        char *p = malloc(i * 1000 + 1);
        p[i * 1000] = i;
        sum += p[i * 1000];
        if (i % 3)
            free(p);
    }
    printf("%ld\n", sum);
}

static void system_(void)
{
    printf("%d %s\n", fopen("/nothing/there", "r") != 0, strerror(errno));
    printf("%d %d\n", close(17), errno);
    struct timespec one, two;
    clock_gettime(CLOCK_MONOTONIC, &one);
    nanosleep(&(struct timespec){0, 1000000}, 0);
    clock_gettime(CLOCK_MONOTONIC, &two);
    long apart = (two.tv_sec - one.tv_sec) * 1000000000 + two.tv_nsec - one.tv_nsec;
    printf("%d %d\n", apart >= 1000000, time(0) > 1700000000);
    struct utsname name;
    uname(&name);
    printf("%s %s\n", name.sysname, name.machine);
    struct rlimit limit;
    printf("%d %lu\n", getrlimit(RLIMIT_STACK, &limit), (unsigned long)limit.rlim_cur);
    unsigned char bytes[40];
    printf("%zd %d\n", getrandom(bytes, sizeof bytes, 0), isatty(0));
    struct stat status;
    printf("%d %d\n", fstat(1, &status), S_ISFIFO(status.st_mode));
    signal(SIGUSR1, SIG_IGN);
    raise(SIGUSR1);
}

int main(int count, char **words)
{
    atexit(last);
    printf("%d %s %d\n", count, words[1], mine++);
    memory();
    int numbers[1000];
    for (int i = 0; i < 1000; i++)
        numbers[i] = i * 7919 % 1000;
    qsort(numbers, 1000, sizeof *numbers, by);
    printf("%d %d %.17g %Lg %a\n", numbers[0], numbers[999], sqrt(2), 1 / 3.0L, strtod("0.1", 0));
    system_();
    if (!setjmp(back))
        longjmp(back, 1);
    else
        puts("back");
    fprintf(stderr, "to stderr %s\n", getenv("HOME") ? "home" : "none");
    char line[80];
    while (fgets(line, sizeof line, stdin))
        printf("<%s", line);
    printf("%d\n", mine);
    return 42;
}
