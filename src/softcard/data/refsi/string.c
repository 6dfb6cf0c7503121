/* The functions of string.h. Those of this library are hidden, so that no one takes them for kernels, and weak, so that a
 * program may have its own.
 */
#include <stdint.h>
#include <string.h>

#define LIBRARY __attribute__((weak, visibility("hidden")))

LIBRARY void *memcpy(void *destination, const void *source, size_t bytes)
{
    char *to = destination;
    const char *from = source;
    if (!(((size_t)to | (size_t)from) & 7))
        for (; bytes >= 8; bytes -= 8, to += 8, from += 8)
            *(uint64_t __attribute__((may_alias)) *)to = *(const uint64_t __attribute__((may_alias)) *)from;
    while (bytes--)
        *to++ = *from++;
    return destination;
}

LIBRARY void *memmove(void *destination, const void *source, size_t bytes)
{
    char *to = destination;
    const char *from = source;
    if ((size_t)to - (size_t)from >= bytes)
        return memcpy(destination, source, bytes);
    while (bytes--)
        to[bytes] = from[bytes];
    return destination;
}

LIBRARY void *memset(void *destination, int byte, size_t bytes)
{
    unsigned char *to = destination;
    while (bytes && (size_t)to & 7)
        *to++ = (unsigned char)byte, bytes--;
    for (; bytes >= 8; bytes -= 8, to += 8)
        *(uint64_t __attribute__((may_alias)) *)to = (unsigned char)byte * 0x0101010101010101ul;
    while (bytes--)
        *to++ = (unsigned char)byte;
    return destination;
}

LIBRARY int memcmp(const void *one, const void *other, size_t bytes)
{
    const unsigned char *a = one, *b = other;
    for (; bytes; bytes--, a++, b++)
        if (*a != *b)
            return *a - *b;
    return 0;
}

LIBRARY size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

LIBRARY int strcmp(const char *one, const char *other)
{
    for (; *one && *one == *other; one++, other++)
        ;
    return *(const unsigned char *)one - *(const unsigned char *)other;
}
