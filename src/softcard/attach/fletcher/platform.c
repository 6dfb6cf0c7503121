/* The platform library of a virtual Fletcher device: the 11 functions a Fletcher run-time looks up in libfletcher_NAME.so,
 * each one request to the server of `softcard serve fletcher` and one reply. messages.py lays out both.
 *
 * The socket is that of the environment variable SOFTCARD_FLETCHER_SOCKET; otherwise the DEFAULT_SOCKET of the build.
 * Calls of several threads take turns. What the device has to say about a mistake goes to standard error.
 */
#define SOCKET_VARIABLE "SOFTCARD_FLETCHER_SOCKET"
#define SERVER "softcard serve fletcher"
#include "host.h"

#define LARGE (1 << 20) /* bytes from which the server is asked first, and data goes by a sealed file where it may */
#define MAGIC UINT64_C(0x52454843544c4655) /* "UFLTCHER" */
#define VERSION 2

typedef uint64_t fstatus_t;
enum { STATUS_OK = 0, STATUS_ERROR = 1, STATUS_NO_PLATFORM = 2, STATUS_DEVICE_OUT_OF_MEMORY = 3 };

enum op {
    OP_WRITE_MMIO = 2,
    OP_READ_MMIO,
    OP_MALLOC,
    OP_FREE,
    OP_HOST_TO_DEVICE,
    OP_DEVICE_TO_HOST,
    OP_PREPARE,
    OP_CACHE,
    OP_TERMINATE,
    OP_OFFER,
};

enum { IN_FILE = 1 }; /* the value of a request that is followed by a file with the data */

/* Return a sealed anonymous file with the data; -1 if the system has no such files. */
static int sealed_file(const void *data, size_t size) {
#ifdef F_ADD_SEALS
    const char *at = data;
    int file = memfd_create("softcard-fletcher", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    while (file >= 0 && size) {
        ssize_t written = write(file, at, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        at += written;
        size -= (size_t)written;
    }
    if (file >= 0 && !size && !fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
        return file;
    if (file >= 0) close(file);
#else
    (void)data;
    (void)size;
#endif
    return -1;
}

static fstatus_t exchange(const struct request *request, const void *data, size_t data_size, int file, uint64_t *value,
                          void *out, size_t room) {
    struct reply reply = {0, 0, 0, 0};
    if (connection < 0) {
        say("error", "call platformInit first", "there is no device: platformInit was not called, or the server has gone");
        return STATUS_ERROR;
    }
    if (!call(request, data, data_size, file, &reply, out, room)) return STATUS_ERROR;
    if (value) *value = reply.value;
    return reply.status;
}

static fstatus_t ask(uint32_t op, uint32_t value, uint64_t address, uint64_t size, const void *data, uint64_t *answer) {
    struct request request = {op, value, address, size};
    pthread_mutex_lock(&turn);
    fstatus_t status = exchange(&request, data, data ? (size_t)size : 0, -1, answer, NULL, 0);
    pthread_mutex_unlock(&turn);
    return status;
}

/* Whether the device would take data for the request `op`: asked before much of it is copied in vain. */
static fstatus_t offer(uint32_t op, uint64_t address, uint64_t size) {
    return size < LARGE ? STATUS_OK : ask(OP_OFFER, op, address, size, NULL, NULL);
}

/* The device gets a copy of a host buffer; a large one in one piece, in which the host cannot write later. */
static fstatus_t bring(uint32_t op, const uint8_t *host, uint64_t size, uint64_t *device) {
    struct request request = {op, IN_FILE, 0, size};
    fstatus_t status = offer(op, 0, size);
    if (status != STATUS_OK) return status;
    int file = host && size >= LARGE ? sealed_file(host, (size_t)size) : -1;
    if (file < 0) return ask(op, 0, 0, size, host, device);
    pthread_mutex_lock(&turn);
    status = exchange(&request, NULL, 0, file, device, NULL, 0);
    pthread_mutex_unlock(&turn);
    close(file);
    return status;
}

static int refused(const char *function, int64_t size, int without_data) {
    if (size < 0) say("error", NULL, "%s: a size of %lld bytes, expected 0 or more", function, (long long)size);
    else if (without_data && size) say("error", NULL, "%s: no host address for %lld bytes", function, (long long)size);
    else return 0;
    return 1;
}

EXPORT fstatus_t platformGetName(char *name, size_t size) {
    if (!name || !size) return STATUS_ERROR;
    snprintf(name, size, "softcard");
    return STATUS_OK;
}

/* `argument` is not looked at: run-times pass NULL, or the options of another platform. */
EXPORT fstatus_t platformInit(void *argument) {
    (void)argument;
    pthread_mutex_lock(&turn);
    int is_there = greet(VERSION, MAGIC);
    pthread_mutex_unlock(&turn);
    return is_there ? STATUS_OK : STATUS_NO_PLATFORM;
}

EXPORT fstatus_t platformTerminate(void *argument) {
    (void)argument;
    fstatus_t status = ask(OP_TERMINATE, 0, 0, 0, NULL, NULL);
    pthread_mutex_lock(&turn);
    hang_up();
    pthread_mutex_unlock(&turn);
    return status;
}

EXPORT fstatus_t platformWriteMMIO(uint64_t index, uint32_t value) {
    return ask(OP_WRITE_MMIO, value, index, 0, NULL, NULL);
}

EXPORT fstatus_t platformReadMMIO(uint64_t index, uint32_t *value) {
    uint64_t answer = 0;
    fstatus_t status = ask(OP_READ_MMIO, 0, index, 0, NULL, &answer);
    if (value) *value = (uint32_t)answer;
    return status;
}

EXPORT fstatus_t platformDeviceMalloc(uint64_t *device, int64_t size) {
    if (!device || refused("platformDeviceMalloc", size, 0)) return STATUS_ERROR;
    return ask(OP_MALLOC, 0, 0, (uint64_t)size, NULL, device);
}

EXPORT fstatus_t platformDeviceFree(uint64_t device) { return ask(OP_FREE, 0, device, 0, NULL, NULL); }

EXPORT fstatus_t platformCopyHostToDevice(const uint8_t *host, uint64_t device, int64_t size) {
    if (refused("platformCopyHostToDevice", size, !host)) return STATUS_ERROR;
    fstatus_t status = offer(OP_HOST_TO_DEVICE, device, (uint64_t)size);
    return status == STATUS_OK ? ask(OP_HOST_TO_DEVICE, 0, device, (uint64_t)size, host, NULL) : status;
}

EXPORT fstatus_t platformCopyDeviceToHost(uint64_t device, uint8_t *host, int64_t size) {
    if (refused("platformCopyDeviceToHost", size, !host)) return STATUS_ERROR;
    struct request request = {OP_DEVICE_TO_HOST, 0, device, (uint64_t)size};
    pthread_mutex_lock(&turn);
    fstatus_t status = exchange(&request, NULL, 0, -1, NULL, host, (size_t)size);
    pthread_mutex_unlock(&turn);
    return status;
}

/* Both copy into memory that they allocate: the device cannot reach the host's. */
EXPORT fstatus_t platformPrepareHostBuffer(const uint8_t *host, uint64_t *device, int64_t size, int *alloced) {
    if (!device || refused("platformPrepareHostBuffer", size, !host)) return STATUS_ERROR;
    fstatus_t status = bring(OP_PREPARE, host, (uint64_t)size, device);
    if (alloced) *alloced = status == STATUS_OK;
    return status;
}

EXPORT fstatus_t platformCacheHostBuffer(const uint8_t *host, uint64_t *device, int64_t size) {
    if (!device || refused("platformCacheHostBuffer", size, !host)) return STATUS_ERROR;
    return bring(OP_CACHE, host, (uint64_t)size, device);
}
