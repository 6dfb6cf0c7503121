/* What of the C library's string.h kernels for RefSi's harts have. */
#ifndef SOFTCARD_STRING_H
#define SOFTCARD_STRING_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *memcpy(void *destination, const void *source, size_t bytes);
void *memmove(void *destination, const void *source, size_t bytes);
void *memset(void *destination, int byte, size_t bytes);
int memcmp(const void *one, const void *other, size_t bytes);
size_t strlen(const char *text);
int strcmp(const char *one, const char *other);

#ifdef __cplusplus
}
#endif
#endif
