/* Eight threads on one device at once: each has memory of its own, a pointer to it, and command buffers that copy there.
 * Prints how much came out wrong. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "refsidrv/refsidrv.h"

#define THREADS 8
#define WORDS 256
#define HOST REFSI_UNIT_ID(REFSI_UNIT_KIND_EXTERNAL, 0)

static refsi_device_t device;
static int rounds;

static void *work(void *number) {
    uint64_t wrong = 0, source[WORDS], back[WORDS];
    refsi_addr_t memory = refsiAllocDeviceMemory(device, 4 * sizeof source, 4096, DRAM);
    refsi_addr_t target = memory + sizeof source, buffer = target + sizeof source;
    volatile uint64_t *kept = refsiGetMappedAddress(device, target, sizeof source);
    if (!memory || !kept) return (void *)1;
    for (int turn = 0; turn < rounds; turn++) {
        for (int each = 0; each < WORDS; each++) source[each] = (uint64_t)number << 48 | (uint64_t)turn << 16 | each;
        uint64_t commands[] = {refsiEncodeCMPCommand(CMP_COPY_MEM64, 3, WORDS), memory, target, 0,
                               refsiEncodeCMPCommand(CMP_FINISH, 0, 0)};
        wrong += refsiWriteDeviceMemory(device, memory, (uint8_t *)source, sizeof source, HOST);
        wrong += refsiWriteDeviceMemory(device, buffer, (uint8_t *)commands, sizeof commands, HOST);
        wrong += refsiExecuteCommandBuffer(device, buffer, sizeof commands);
        if (turn % 2) refsiWaitForDeviceIdle(device);
        wrong += refsiReadDeviceMemory(device, (uint8_t *)back, target, sizeof back, HOST);
        wrong += memcmp(source, back, sizeof back) != 0;
        for (int each = 0; each < WORDS; each++) wrong += kept[each] != source[each];
        refsi_addr_t more = refsiAllocDeviceMemory(device, 1000 + turn, 64, DRAM);
        wrong += more < 2 || more % 64;
        wrong += refsiFreeDeviceMemory(device, more);
    }
    return (void *)wrong;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    uint64_t wrong = 0;
    rounds = count > 1 ? atoi(arguments[1]) : 100;
    if (refsiInitialize() || !(device = refsiOpenDevice(REFSI_M))) return 2;
    for (uintptr_t each = 0; each < THREADS; each++) pthread_create(&threads[each], NULL, work, (void *)(each + 1));
    for (int each = 0; each < THREADS; each++) {
        void *found;
        pthread_join(threads[each], &found);
        wrong += (uint64_t)found;
    }
    printf("%d wrong\n", (int)wrong);
    return refsiTerminate();
}
