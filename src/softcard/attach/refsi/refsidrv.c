/* librefsidrv.so of a virtual RefSi device: the 18 functions of the reference driver, for programs that know nothing of
 * Softcard. The device is in the server of `softcard serve refsi`; messages.py lays out what the two say.
 *
 * The socket is that of the environment variable SOFTCARD_REFSI_SOCKET; otherwise the DEFAULT_SOCKET of the build.
 * Where the server shares the device's memories, they are mapped here for as long as the device is open: plain reads and
 * writes are copies, without a message, unless command buffers are under way, which everything waits for. Command
 * buffers and freed memory are told of, and no answer is waited for. Calls of several threads take turns.
 */
#define SOCKET_VARIABLE "SOFTCARD_REFSI_SOCKET"
#define SERVER "softcard serve refsi"
#include "host.h"
#include "refsidrv/refsidrv.h"

#define MAGIC UINT64_C(0x5244495346455255) /* "UREFSIDR" */
#define VERSION 1

#define MAX_ENTRIES 8
#define MAX_ISA 40
#define EXTERNAL_ONLY ((uint32_t)REFSI_UNIT_KIND_EXTERNAL << 24)
#define KIND_MASK UINT32_C(0xff000000)

enum op {
    OP_OPEN = 2,
    OP_SHUTDOWN,
    OP_ALLOCATE,
    OP_FREE,
    OP_MAP,
    OP_READ,
    OP_WRITE,
    OP_SUBMIT,
    OP_WAIT,
    OP_EXECUTE,
};

enum { FOR_BUFFERS = 0, UNTIL_IDLE = 1 }; /* what OP_WAIT waits for */

/* What the server tells of a device that it has opened. */
struct description {
    uint32_t cores, harts, vlen, elen, num_entries, num_memories;
    uint64_t file_offset; /* of the first byte of each memory in its file */
    char isa[MAX_ISA];
    struct {
        uint64_t kind, start, size;
    } entries[MAX_ENTRIES];
    struct {
        uint64_t base, size;
    } memories[MAX_FILES];
};

struct RefSiDevice {
    uint32_t family;
    int is_open;
    int was_open;       /* since when its handle is one */
    unsigned greeting;  /* of the connection that it was opened on */
    int is_pending;     /* command buffers may be under way */
    uint64_t plain;     /* a bit for each memory that is where the memory map has it */
    uint64_t largest;   /* no access of more bytes can be good */
    struct description about;
    char *memories[MAX_FILES]; /* NULL where not shared */
};

static struct RefSiDevice devices[] = {{.family = REFSI_M}, {.family = REFSI_G}};
static unsigned greetings;

#define EACH_DEVICE(name) struct RefSiDevice *name = devices; name < devices + 2; name++

/* ---- handles ---- */

static int is_lost(const struct RefSiDevice *device) {
    return connection < 0 || device->greeting != greetings;
}

static refsi_result state_of(const struct RefSiDevice *handle) {
    for (EACH_DEVICE(device))
        if (device == handle && device->was_open) {
            if (!device->is_open) return refsi_device_closed;
            return is_lost(device) ? refsi_failure : refsi_success;
        }
    return refsi_invalid_device;
}

/* Take the turn; what is wrong with the handle. */
static refsi_result enter(const struct RefSiDevice *device) {
    pthread_mutex_lock(&turn);
    return state_of(device);
}

static refsi_result leave(refsi_result result) {
    pthread_mutex_unlock(&turn);
    return result;
}

/* ---- requests ---- */

static struct request about(const struct RefSiDevice *device, uint32_t op, uint32_t value, uint64_t address,
                            uint64_t size) {
    return (struct request){op | device->family << 16, value, address, size};
}

/* What the server answers; refsi_failure where it has gone. */
static refsi_result ask(struct request request, const void *data, size_t data_size, uint64_t *value, void *out,
                        size_t room) {
    struct reply reply = {0, 0, 0, 0};
    if (!call(&request, data, data_size, -1, &reply, out, room)) return refsi_failure;
    if (value) *value = reply.value;
    return (refsi_result)reply.status;
}

/* A request that is not answered. */
static refsi_result tell(struct request request) {
    if (send_all(&request, sizeof request)) return refsi_success;
    say("error", GONE, "the server has gone");
    hang_up();
    return refsi_failure;
}

/* Wait until the command buffers have run that were submitted so far. */
static refsi_result wait_for(struct RefSiDevice *device, uint32_t what) {
    refsi_result result = ask(about(device, OP_WAIT, what, 0, 0), NULL, 0, &device->plain, NULL, 0);
    device->is_pending = 0;
    return result;
}

/* The bytes that the host reaches there without the server, else NULL. */
static char *reach(const struct RefSiDevice *device, uint64_t address, uint64_t size) {
    for (uint32_t each = 0; each < device->about.num_memories; each++) {
        uint64_t base = device->about.memories[each].base, room = device->about.memories[each].size;
        if (device->memories[each] && device->plain >> each & 1 && address >= base && address - base <= room &&
            size <= room - (address - base))
            return device->memories[each] + (address - base);
    }
    return NULL;
}

/* ---- open and shut down ---- */

static uint64_t number_of(const char *variable) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : 0;
}

static void unmap(struct RefSiDevice *device) {
    for (uint32_t each = 0; each < MAX_FILES; each++) {
        if (device->memories[each]) munmap(device->memories[each], (size_t)device->about.memories[each].size);
        device->memories[each] = NULL;
    }
}

static int map(struct RefSiDevice *device) {
    int files[MAX_FILES], is_good = 1;
    uint32_t count = device->about.num_memories;
    if (count > MAX_FILES || !receive_files(files, count)) return 0;
    for (uint32_t each = 0; each < count; each++) {
        void *found = mmap(NULL, (size_t)device->about.memories[each].size, PROT_READ | PROT_WRITE, MAP_SHARED,
                           files[each], (off_t)device->about.file_offset);
        if (found != MAP_FAILED) device->memories[each] = found;
        else is_good = 0;
        close(files[each]);
    }
    if (!is_good) say("error", NULL, "the device's memory cannot be mapped: %s", strerror(errno));
    return is_good;
}

/* Whether the server has opened the device and its memory is here. */
static int opened(struct RefSiDevice *device) {
    uint32_t level = (uint32_t)number_of("CA_PROFILE_LEVEL");
    uint64_t vlen = device->family == REFSI_G ? number_of("CA_RISCV_VLEN_BITS_MIN") : 0;
    memset(&device->about, 0, sizeof device->about);
    if (ask(about(device, OP_OPEN, level, vlen, 0), NULL, 0, &device->plain, &device->about, sizeof device->about))
        return 0;
    if (device->about.num_entries > MAX_ENTRIES || (device->about.num_memories && !map(device))) {
        unmap(device);
        hang_up();
        return 0;
    }
    device->about.isa[MAX_ISA - 1] = '\0';
    device->largest = 0;
    for (uint32_t each = 0; each < device->about.num_entries; each++)
        if (device->about.entries[each].size > device->largest) device->largest = device->about.entries[each].size;
    device->greeting = greetings;
    device->is_pending = 0;
    return 1;
}

static int is_any_open(void) {
    for (EACH_DEVICE(device))
        if (device->is_open && !is_lost(device)) return 1;
    return 0;
}

static int is_connected(void) {
    if (connection >= 0) return 1;
    if (!greet(VERSION, MAGIC)) return 0;
    greetings++;
    return 1;
}

/* Who has no device leaves the server to others. */
static void leave_server(void) {
    if (!is_any_open()) hang_up();
}

static void shut_down(struct RefSiDevice *device) {
    if (!is_lost(device)) ask(about(device, OP_SHUTDOWN, 0, 0, 0), NULL, 0, NULL, NULL, 0);
    unmap(device);
    device->is_open = 0;
    leave_server();
}

__attribute__((destructor)) static void unload(void) { hang_up(); }

EXPORT refsi_result refsiInitialize(void) { return refsi_success; }

EXPORT refsi_result refsiTerminate(void) {
    pthread_mutex_lock(&turn);
    for (EACH_DEVICE(device))
        if (device->is_open) shut_down(device);
    return leave(refsi_success);
}

EXPORT refsi_device_t refsiOpenDevice(refsi_device_family family) {
    struct RefSiDevice *found = NULL;
    pthread_mutex_lock(&turn);
    for (EACH_DEVICE(device))
        if (device->family == (uint32_t)(family == REFSI_DEFAULT ? REFSI_M : family)) found = device;
    if (found && found->is_open && is_lost(found)) {
        say("error", "shut it down before it is opened again", "the device is gone with its server");
        found = NULL;
    } else if (found && !found->is_open) {
        found->is_open = is_connected() && opened(found);
        found->was_open |= found->is_open;
        if (!found->is_open) {
            leave_server();
            found = NULL;
        }
    }
    pthread_mutex_unlock(&turn);
    return found;
}

EXPORT refsi_result refsiShutdownDevice(refsi_device_t device) {
    refsi_result result = enter(device);
    if (result == refsi_invalid_device || result == refsi_device_closed) return leave(refsi_failure);
    shut_down(device);
    return leave(refsi_success);
}

/* ---- queries ---- */

EXPORT refsi_result refsiQueryDeviceInfo(refsi_device_t device, refsi_device_info_t *info) {
    refsi_result result = enter(device);
    if (result == refsi_success && !info) result = refsi_failure;
    if (result == refsi_success) {
        const struct description *about = &device->about;
        *info = (refsi_device_info_t){(refsi_device_family)device->family, about->cores, about->harts,
                                      about->num_entries, about->isa, about->vlen, about->elen};
    }
    return leave(result);
}

EXPORT refsi_result refsiQueryDeviceMemoryMap(refsi_device_t device, size_t index, refsi_memory_map_entry *entry) {
    refsi_result result = enter(device);
    if (result == refsi_success && (!entry || index >= device->about.num_entries)) result = refsi_failure;
    if (result == refsi_success) {
        entry->kind = (refsi_memory_map_kind)device->about.entries[index].kind;
        entry->start_addr = device->about.entries[index].start;
        entry->size = (size_t)device->about.entries[index].size;
    }
    return leave(result);
}

/* ---- memory ---- */

EXPORT refsi_addr_t refsiAllocDeviceMemory(refsi_device_t device, size_t size, size_t alignment,
                                           refsi_memory_map_kind kind) {
    uint64_t address = 0;
    if (enter(device) == refsi_success)
        ask(about(device, OP_ALLOCATE, (uint32_t)kind, alignment, size), NULL, 0, &address, NULL, 0);
    leave(refsi_success);
    return address;
}

EXPORT refsi_result refsiFreeDeviceMemory(refsi_device_t device, refsi_addr_t address) {
    refsi_result result = enter(device);
    if (result == refsi_success) result = tell(about(device, OP_FREE, 0, address, 0));
    return leave(result);
}

EXPORT void *refsiGetMappedAddress(refsi_device_t device, refsi_addr_t address, size_t size) {
    char *found = NULL;
    if (enter(device) == refsi_success && device->about.num_memories &&
        (!device->is_pending || wait_for(device, FOR_BUFFERS) == refsi_success)) {
        found = reach(device, address, size);
        if (!found && ask(about(device, OP_MAP, 0, address, size), NULL, 0, &address, NULL, 0) == refsi_success) {
            uint64_t plain = device->plain;
            device->plain = ~UINT64_C(0); /* the server names the memory itself, wherever it is mapped */
            found = reach(device, address, size);
            device->plain = plain;
        }
    }
    leave(refsi_success);
    return found;
}

EXPORT refsi_result refsiFlushDeviceMemory(refsi_device_t device, refsi_addr_t address, size_t size) {
    (void)address;
    (void)size;
    return leave(enter(device));
}

EXPORT refsi_result refsiInvalidateDeviceMemory(refsi_device_t device, refsi_addr_t address, size_t size) {
    return refsiFlushDeviceMemory(device, address, size);
}

/* What an access is to do: take the turn, wait for command buffers, and find the bytes if they can be reached here. */
static refsi_result begin_access(struct RefSiDevice *device, const void *buffer, uint64_t address, uint64_t size,
                                 uint32_t unit, char **bytes) {
    refsi_result result = enter(device);
    if (result != refsi_success) return result;
    if ((size && !buffer) || size > device->largest) return refsi_failure;
    if (device->is_pending) result = wait_for(device, FOR_BUFFERS);
    if (result == refsi_success && (unit & KIND_MASK) == EXTERNAL_ONLY) *bytes = reach(device, address, size);
    return result;
}

EXPORT refsi_result refsiReadDeviceMemory(refsi_device_t device, uint8_t *dest, refsi_addr_t address, size_t size,
                                          uint32_t unit_id) {
    char *bytes = NULL;
    refsi_result result = begin_access(device, dest, address, size, unit_id, &bytes);
    if (result == refsi_success && !bytes)
        result = ask(about(device, OP_READ, unit_id, address, size), NULL, 0, NULL, dest, size);
    else if (result == refsi_success && size) memcpy(dest, bytes, size);
    return leave(result);
}

EXPORT refsi_result refsiWriteDeviceMemory(refsi_device_t device, refsi_addr_t address, const uint8_t *source,
                                           size_t size, uint32_t unit_id) {
    char *bytes = NULL;
    refsi_result result = begin_access(device, source, address, size, unit_id, &bytes);
    if (result == refsi_success && !bytes)
        result = ask(about(device, OP_WRITE, unit_id, address, size), source, size, NULL, NULL, 0);
    else if (result == refsi_success && size) memcpy(bytes, source, size);
    return leave(result);
}

/* ---- execution ---- */

EXPORT refsi_result refsiExecuteCommandBuffer(refsi_device_t device, refsi_addr_t address, size_t size) {
    refsi_result result = enter(device);
    if (result == refsi_success && device->family != REFSI_M) result = refsi_not_supported;
    if (result == refsi_success) {
        device->is_pending = 1;
        result = tell(about(device, OP_SUBMIT, 0, address, size));
    }
    return leave(result);
}

EXPORT void refsiWaitForDeviceIdle(refsi_device_t device) {
    if (enter(device) == refsi_success && device->family == REFSI_M) wait_for(device, UNTIL_IDLE);
    leave(refsi_success);
}

EXPORT refsi_result refsiExecuteKernel(refsi_device_t device, refsi_addr_t entry, uint32_t num_harts) {
    if (!device) return refsi_failure; /* as the reference has it, here only */
    refsi_result result = enter(device);
    if (result == refsi_success && device->family != REFSI_G) result = refsi_not_supported;
    if (result == refsi_success) result = ask(about(device, OP_EXECUTE, num_harts, entry, 0), NULL, 0, NULL, NULL, 0);
    return leave(result);
}

/* ---- headers of commands: bits 7-0 are 0, 15-8 the opcode, 29-16 twice the chunks, 31-30 are 3 ---- */

EXPORT refsi_result refsiDecodeCMPCommand(uint64_t header, refsi_cmp_command_id *opcode, uint32_t *chunk_count,
                                          uint32_t *inline_chunk) {
    if ((header & 0xff) != 0 || (header >> 30 & 3) != 3) return refsi_failure;
    if (opcode) *opcode = (refsi_cmp_command_id)(header >> 8 & 0xff);
    if (chunk_count) *chunk_count = (uint32_t)(header >> 16 & 0x3fff) / 2;
    if (inline_chunk) *inline_chunk = (uint32_t)(header >> 32);
    return refsi_success;
}

/* What does not fit its field runs over into the next, as in the reference. */
EXPORT uint64_t refsiEncodeCMPCommand(refsi_cmp_command_id opcode, uint32_t chunk_count, uint32_t inline_chunk) {
    uint32_t low = UINT32_C(3) << 30 | (uint32_t)opcode << 8 | (chunk_count * 2) << 16;
    return (uint64_t)inline_chunk << 32 | low;
}
