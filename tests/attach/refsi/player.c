/* Plays the recordings' script language (tests/vectors/refsi/README.md) from standard input through librefsidrv. */
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "refsidrv/refsidrv.h"

#define BUFFER UINT64_C(0x4f000000) /* no recording looks there */
#define MAX_WORDS 4096

static refsi_device_t device;
static uint32_t unit = REFSI_UNIT_ID(REFSI_UNIT_KIND_EXTERNAL, 0);

static void show(uint64_t address, uint64_t count, uint64_t preset) {
    uint64_t *words = malloc(count * 8 + 8);
    for (uint64_t each = 0; each < count; each++) words[each] = preset;
    int result = refsiReadDeviceMemory(device, (uint8_t *)words, address, count * 8, unit);
    printf("r64 %#" PRIx64 " r=%d", address, result);
    for (uint64_t each = 0; each < count; each++) printf(" %" PRIx64, words[each]);
    printf("\n");
    free(words);
}

static int put(uint64_t address, const void *data, uint64_t size) {
    return refsiWriteDeviceMemory(device, address, data, size, unit);
}

static void query(void) {
    refsi_device_info_t info;
    refsi_memory_map_entry entry;
    int result = refsiQueryDeviceInfo(device, &info);
    printf("info r=%d family=%d cores=%u harts=%u maps=%u isa=%s vlen=%u elen=%u\n", result, info.family, info.num_cores,
           info.num_harts_per_core, info.num_memory_map_entries, info.core_isa, info.core_vlen, info.core_elen);
    for (unsigned each = 0; each < info.num_memory_map_entries; each++) {
        result = refsiQueryDeviceMemoryMap(device, each, &entry);
        printf("map[%u] r=%d kind=%d base=%#" PRIx64 " size=%#zx\n", each, result, entry.kind, entry.start_addr,
               entry.size);
    }
}

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) exit(9);
    static uint8_t bytes[1 << 22];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    const Elf64_Ehdr *header = (const void *)bytes;
    for (int each = 0; size && each < header->e_phnum; each++) {
        const Elf64_Phdr *segment = (const void *)(bytes + header->e_phoff + each * header->e_phentsize);
        if (segment->p_type != PT_LOAD || !segment->p_memsz) continue;
        uint8_t *image = calloc(1, segment->p_memsz);
        memcpy(image, bytes + segment->p_offset, segment->p_filesz);
        printf("load %#" PRIx64 "+%#" PRIx64 " r=%d\n", segment->p_vaddr, segment->p_memsz,
               put(segment->p_vaddr, image, segment->p_memsz));
        free(image);
    }
}

static void execute(const uint64_t *words, size_t count) {
    uint32_t own = unit;
    unit = REFSI_UNIT_ID(REFSI_UNIT_KIND_EXTERNAL, 0);
    put(BUFFER, words, count * 8);
    unit = own;
    int result = refsiExecuteCommandBuffer(device, BUFFER, count * 8);
    if (result == refsi_success) refsiWaitForDeviceIdle(device);
    printf("cb r=%d\n", result);
}

int main(void) {
    static char line[1 << 20];
    static uint64_t n[MAX_WORDS];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = '\0';
        char *rest = line, *verb = strsep(&rest, " ");
        if (!*verb || *verb == '#') continue;
        if (!rest) rest = "";
        size_t count = 0;
        char *text = rest, *end = rest;
        if (strcmp(verb, "elf") && strcmp(verb, "open"))
            for (; count < MAX_WORDS; count++, text = end) {
                n[count] = strtoull(text, &end, 0);
                if (end == text || (!strcmp(verb, "str") && count == 1)) break;
            }
        if (!strcmp(verb, "open")) {
            device = refsiOpenDevice(*rest == 'g' ? REFSI_G : REFSI_M);
            printf("open %s\n", device ? "ok" : "null");
        } else if (!strcmp(verb, "query")) query();
        else if (!strcmp(verb, "unit")) unit = REFSI_UNIT_ID(n[0], n[1]);
        else if (!strcmp(verb, "alloc"))
            printf("alloc %#" PRIx64 "\n",
                   refsiAllocDeviceMemory(device, n[0], n[1], count > 2 ? (refsi_memory_map_kind)n[2] : DRAM));
        else if (!strcmp(verb, "w64")) printf("w64 %#" PRIx64 " r=%d\n", n[0], put(n[0], n + 1, (count - 1) * 8));
        else if (!strcmp(verb, "w32")) printf("w32 %#" PRIx64 " r=%d\n", n[0], put(n[0], n + 1, 4));
        else if (!strcmp(verb, "r64")) show(n[0], count > 1 ? n[1] : 1, UINT64_C(0xdeaddeaddeaddead));
        else if (!strcmp(verb, "r64each"))
            for (uint64_t each = 0; each < n[1]; each++) show(n[0] + each * 8, 1, 0xdead);
        else if (!strcmp(verb, "rb")) {
            uint8_t *bytes = malloc(n[1] + 1);
            int result = refsiReadDeviceMemory(device, bytes, n[0], n[1], unit);
            printf("rb %#" PRIx64 " n=%" PRIu64 " r=%d\n", n[0], n[1], result);
            free(bytes);
        } else if (!strcmp(verb, "map")) printf("map %s\n", refsiGetMappedAddress(device, n[0], n[1]) ? "ptr" : "null");
        else if (!strcmp(verb, "str")) {
            text = strchr(rest, ' ');
            text = text ? text + 1 : "";
            char *said = malloc(strlen(text) + 2);
            size_t size = (size_t)sprintf(said, "%s\n", text) + 1;
            printf("str r=%d\n", put(n[0], said, size));
            free(said);
        } else if (!strcmp(verb, "fill")) {
            uint8_t *bytes = malloc(n[1] + 1);
            memset(bytes, (int)n[2], n[1]);
            printf("fill r=%d\n", put(n[0], bytes, n[1]));
            free(bytes);
        } else if (!strcmp(verb, "elf")) load(rest);
        else if (!strcmp(verb, "cb")) execute(n, count);
        else if (!strcmp(verb, "exec")) printf("exec r=%d\n", refsiExecuteKernel(device, n[0], (uint32_t)n[1]));
        else if (!strcmp(verb, "close")) {
            printf("close r=%d\n", refsiShutdownDevice(device));
            device = NULL;
        } else return 8;
    }
    return 0;
}
