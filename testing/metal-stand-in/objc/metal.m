/* Devices, memory, events and queues with Metal's names, done by a thread of the stand-in. */
#include "stand_in.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { DEVICES = 2, PAGE = 4096, LONGEST = 1 << 30, STORAGE_MODES = 0xf0 };

atomic_long stand_in_failure, stand_in_delay = 1, stand_in_blocked, stand_in_copies;
atomic_long stand_in_room = 1L << 40;

static StandInDevice *devices[DEVICES];
static atomic_int device_count = DEVICES;

static void make_devices(void)
{
    for (int i = 0; i < DEVICES; i++) {
        devices[i] = [StandInDevice make];
        devices[i]->number = i;
    }
    atomic_store(&stand_in_objects, 0);
}

static StandInDevice *device_of(int number)
{
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    pthread_once(&made, make_devices);
    return devices[number];
}

/* ---- control, for tests */

void stand_in_set_devices(int count) { atomic_store(&device_count, count); }
void stand_in_set_delay(long nanoseconds) { atomic_store(&stand_in_delay, nanoseconds); }
void stand_in_set_room(long bytes) { atomic_store(&stand_in_room, bytes); }
void stand_in_fail_next_copy(long code) { atomic_store(&stand_in_failure, code); }
void stand_in_lose(int number) { atomic_store(&device_of(number)->is_lost, 1); }
long stand_in_count_objects(void) { return atomic_load(&stand_in_objects); }
long stand_in_count_blocked(void) { return atomic_load(&stand_in_blocked); }
long stand_in_count_copies(void) { return atomic_load(&stand_in_copies); }

/* ---- the functions of Metal */

id MTLCreateSystemDefaultDevice(void)
{
    stand_in_needs_pool("MTLCreateSystemDefaultDevice");
    return atomic_load(&device_count) ? [device_of(0) retain] : nil;
}

id MTLCopyAllDevices(void)
{
    stand_in_needs_pool("MTLCopyAllDevices");
    StandInArray *all = [StandInArray make];
    /* The default device is not the first one. */
    for (int i = atomic_load(&device_count) - 1; i >= 0; i--) {
        all->elements[all->length++] = [device_of(i) retain];
    }
    return all;
}

@implementation StandInDevice
- (id)name
{
    return stand_in_string(number ? "Stand-in for Metal, second" : "Stand-in for Metal");
}
- (uint64_t)registryID
{
    stand_in_needs_pool("registryID");
    return 0x100000abcULL + (uint64_t)number;
}
- (NSUInteger)maxBufferLength
{
    stand_in_needs_pool("maxBufferLength");
    return LONGEST;
}
- (uint64_t)recommendedMaxWorkingSetSize
{
    stand_in_needs_pool("recommendedMaxWorkingSetSize");
    return LONGEST;
}
- (id)newBufferWithLength:(NSUInteger)length options:(NSUInteger)options
{
    stand_in_needs_pool("newBufferWithLength:options:");
    if (length == 0 || (options & ~(NSUInteger)STORAGE_MODES) != 0) {
        stand_in_mistake("a buffer of %lu bytes with the options %lu", length, options);
        return nil;
    }
    NSUInteger whole = (length + PAGE - 1) / PAGE * PAGE;
    if (length > LONGEST || atomic_fetch_sub(&stand_in_room, (long)whole) < (long)whole) {
        if (length <= LONGEST) {
            atomic_fetch_add(&stand_in_room, (long)whole);
        }
        return nil;
    }
    StandInBuffer *buffer = [StandInBuffer make];
    buffer->device = self;
    buffer->bytes =
        mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Fresh memory is not zeros. */
    memset(buffer->bytes, 0xa5, length < PAGE ? length : PAGE);
    buffer->length = length;
    buffer->owns = YES;
    buffer->mode = (options & STORAGE_MODES) >> 4;
    return buffer;
}
- (id)newBufferWithBytesNoCopy:(void *)bytes
                        length:(NSUInteger)length
                       options:(NSUInteger)options
                   deallocator:(id)deallocator
{
    stand_in_needs_pool("newBufferWithBytesNoCopy:length:options:deallocator:");
    if ((uintptr_t)bytes % PAGE || length % PAGE || !length || (options & STORAGE_MODES)
        || deallocator) {
        stand_in_mistake("a buffer around %p of %lu bytes", bytes, length);
        return nil;
    }
    StandInBuffer *buffer = [StandInBuffer make];
    buffer->device = self;
    buffer->bytes = bytes;
    buffer->length = length;
    return buffer;
}
- (id)newSharedEvent
{
    stand_in_needs_pool("newSharedEvent");
    StandInEvent *event = [StandInEvent make];
    event->device = self;
    return event;
}
- (id)newEvent
{
    StandInPlainEvent *event = [StandInPlainEvent make];
    event->device = self;
    return event;
}
- (id)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)most
{
    stand_in_needs_pool("newCommandQueueWithMaxCommandBufferCount:");
    StandInQueue *queue = [StandInQueue make];
    queue->device = self;
    queue->most = most;
    return queue;
}
- (id)newCommandQueue
{
    return [self newCommandQueueWithMaxCommandBufferCount:64];
}
@end

@implementation StandInBuffer
- (void *)contents
{
    return stand_in_alive(self, "contents") ? bytes : NULL;
}
- (NSUInteger)length
{
    return stand_in_alive(self, "length") ? length : 0;
}
- (NSUInteger)storageMode
{
    stand_in_needs_pool("storageMode");
    return mode;
}
- (id)device
{
    stand_in_needs_pool("device");
    return device;
}
- (void)empty
{
    if (owns) {
        NSUInteger whole = (length + PAGE - 1) / PAGE * PAGE;
        munmap(bytes, whole);
        atomic_fetch_add(&stand_in_room, (long)whole);
    }
}
@end

@implementation StandInPlainEvent
- (id)device
{
    stand_in_needs_pool("device");
    return device;
}
@end

@implementation StandInEvent
- (uint64_t)signaledValue
{
    return stand_in_alive(self, "signaledValue") ? atomic_load(&value) : 0;
}
- (void)setSignaledValue:(uint64_t)to
{
    if (!stand_in_alive(self, "setSignaledValue:")) {
        return;
    }
    stand_in_lock();
    if (to < atomic_load(&value)) {
        stand_in_mistake("the value of an event goes back");
    }
    atomic_store(&value, to);
    stand_in_changed();
    stand_in_unlock();
}
- (BOOL)waitUntilSignaledValue:(uint64_t)least timeoutMS:(uint64_t)milliseconds
{
    if (!stand_in_alive(self, "waitUntilSignaledValue:timeoutMS:")) {
        return NO;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t start = now.tv_sec * 1000 + now.tv_nsec / 1000000, left = (int64_t)milliseconds;
    stand_in_lock();
    while (atomic_load(&value) < least && left > 0) {
        stand_in_wait_for_change(left);
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = start + (int64_t)milliseconds - now.tv_sec * 1000 - now.tv_nsec / 1000000;
    }
    BOOL passed = atomic_load(&value) >= least;
    stand_in_unlock();
    return passed;
}
@end

@implementation StandInQueue
- (id)device
{
    stand_in_needs_pool("device");
    return device;
}
- (id)commandBuffer
{
    if (!stand_in_alive(self, "commandBuffer")) {
        return nil;
    }
    stand_in_lock();
    if (unfinished >= most) {
        atomic_fetch_add(&stand_in_blocked, 1);
    }
    while (unfinished >= most) {
        stand_in_wait_for_change(-1);
    }
    unfinished++;
    stand_in_unlock();
    StandInCommands *commands = [StandInCommands make];
    commands->queue = [self retain];
    return [commands autorelease];
}
@end

@implementation StandInCommands
- (struct Command *)add:(enum Operation)operation
{
    if (!stand_in_alive(self, "a command") || was_committed) {
        stand_in_mistake("a command is encoded after the commit");
    }
    if (operation != COPY && encoder) {
        stand_in_mistake("a command is encoded before the encoder has ended");
    }
    commands = realloc(commands, (size_t)(length + 1) * sizeof *commands);
    struct Command *command = &commands[length++];
    *command = (struct Command){.operation = operation};
    return command;
}
- (void)event:(StandInEvent *)event value:(uint64_t)value operation:(enum Operation)operation
{
    if (stand_in_alive(event, "an encoded event")) {
        if (event->device != queue->device) {
            stand_in_mistake("an event of another device");
        }
        struct Command *command = [self add:operation];
        command->source = [event retain];
        command->value = value;
    }
}
- (void)encodeSignalEvent:(StandInEvent *)event value:(uint64_t)value
{
    [self event:event value:value operation:SIGNAL];
}
- (void)encodeWaitForEvent:(StandInEvent *)event value:(uint64_t)value
{
    [self event:event value:value operation:WAIT];
}
- (id)blitCommandEncoder
{
    if (encoder) {
        stand_in_mistake("an encoder begins before the last one has ended");
    }
    StandInEncoder *blit = [StandInEncoder make];
    blit->commands = self;
    encoder = blit;
    return [blit autorelease];
}
- (void)commit
{
    if (!stand_in_alive(self, "commit") || was_committed || encoder) {
        stand_in_mistake("a commit after a commit, or before an encoder has ended");
        return;
    }
    was_committed = YES;
    for (int i = 0; i < length; i++) {
        long code = 0;
        if (commands[i].operation == COPY && (code = atomic_exchange(&stand_in_failure, 0))) {
            fails = YES;
            error = [StandInError make];
            error->code = code;
        }
    }
    [self retain];
    stand_in_lock();
    atomic_store(&status, 2);
    struct CommittedList *list = &queue->committed;
    if (list->last) {
        ((StandInCommands *)list->last)->next = self;
    } else {
        list->first = self;
    }
    list->last = self;
    stand_in_list(queue);
    stand_in_unlock();
}
- (NSUInteger)status
{
    return stand_in_alive(self, "status") ? atomic_load(&status) : 5;
}
- (id)error
{
    stand_in_needs_pool("error");
    return error;
}
- (void)waitUntilCompleted
{
    if (!was_committed) {
        stand_in_mistake("a wait for commands that are not committed");
        return;
    }
    stand_in_lock();
    while (atomic_load(&status) < 4) {
        stand_in_wait_for_change(-1);
    }
    stand_in_unlock();
}
- (void)empty
{
    for (int i = 0; i < length; i++) {
        [commands[i].source release];
        [commands[i].destination release];
    }
    free(commands);
    [error release];
    if (!was_committed) {
        stand_in_lock();
        queue->unfinished--;
        stand_in_changed();
        stand_in_unlock();
    }
    [queue release];
}
@end

@implementation StandInEncoder
- (void)copyFromBuffer:(StandInBuffer *)source
           sourceOffset:(NSUInteger)from
               toBuffer:(StandInBuffer *)destination
      destinationOffset:(NSUInteger)to
                   size:(NSUInteger)length
{
    if (has_ended || !stand_in_alive(source, "a source") || !stand_in_alive(destination, "a target")) {
        stand_in_mistake("a copy that cannot be encoded");
        return;
    }
    if (from % 4 || to % 4 || length % 4 || !length) {
        stand_in_mistake("a copy of %lu bytes from %lu to %lu", length, from, to);
        return;
    }
    BOOL fits = from <= source->length && length <= source->length - from
        && to <= destination->length && length <= destination->length - to;
    if (!fits || source->device != commands->queue->device
        || destination->device != commands->queue->device) {
        stand_in_mistake("a copy past the end of a buffer, or of another device");
        return;
    }
    struct Command *command = [commands add:COPY];
    command->source = [source retain];
    command->destination = [destination retain];
    command->from = from;
    command->to = to;
    command->length = length;
}
- (void)endEncoding
{
    stand_in_needs_pool("endEncoding");
    if (has_ended) {
        stand_in_mistake("an encoder ends twice");
        return;
    }
    has_ended = YES;
    commands->encoder = nil;
}
- (void)empty
{
    if (!has_ended) {
        stand_in_mistake("an encoder was not ended");
    }
}
@end

/* ---- the thread that does the work */

static StandInQueue *listed;

/* With the lock: does what the first commands of a queue can do. Returns whether anything was
 * done. */
static BOOL advance(StandInQueue *queue)
{
    StandInCommands *commands = queue->committed.first;
    if (commands->done == 0 && atomic_load(&stand_in_delay)) {
        stand_in_unlock();
        nanosleep(&(struct timespec){.tv_nsec = atomic_load(&stand_in_delay)}, NULL);
        stand_in_lock();
    }
    BOOL is_lost = atomic_load(&queue->device->is_lost), moved = NO;
    while (commands->done < commands->length && !is_lost && !commands->fails) {
        struct Command *command = &commands->commands[commands->done];
        if (command->operation == COPY) {
            /* Others may commit meanwhile: the list of these commands does not change any more. */
            stand_in_unlock();
            memcpy((char *)((StandInBuffer *)command->destination)->bytes + command->to,
                   (char *)((StandInBuffer *)command->source)->bytes + command->from,
                   command->length);
            atomic_fetch_add(&stand_in_copies, 1);
            stand_in_lock();
        } else {
            StandInEvent *event = command->source;
            if (command->operation == SIGNAL) {
                if (atomic_load(&event->value) < command->value) {
                    atomic_store(&event->value, command->value);
                }
                stand_in_changed();
            } else if (atomic_load(&event->value) < command->value) {
                return moved;
            }
        }
        commands->done++;
        moved = YES;
        is_lost = atomic_load(&queue->device->is_lost);
    }
    if (is_lost && !commands->error) {
        commands->error = [StandInError make];
        commands->error->code = 11;
    }
    queue->committed.first = commands->next;
    if (!commands->next) {
        queue->committed.last = nil;
    }
    queue->unfinished--;
    atomic_store(&commands->status, commands->error ? 5 : 4);
    stand_in_changed();
    stand_in_unlock();
    [commands release];
    stand_in_lock();
    return YES;
}

static void *work(void *unused)
{
    objc_autoreleasePoolPush();
    stand_in_lock();
    for (;;) {
        BOOL moved = NO;
        StandInQueue **place = &listed;
        while (*place) {
            StandInQueue *queue = *place;
            moved |= advance(queue);
            if (queue->committed.first) {
                place = &queue->next;
                continue;
            }
            /* Queues that came meanwhile stand before this one. */
            for (place = &listed; *place != queue; place = &(*place)->next) {
            }
            *place = queue->next;
            queue->is_listed = NO;
            stand_in_unlock();
            [queue release];
            stand_in_lock();
            /* The list may be another one now. */
            place = &listed;
            moved = YES;
        }
        if (!moved) {
            stand_in_wait_for_change(atomic_load(&stand_in_delay) ? 20 : -1);
        }
    }
    return unused;
}

void stand_in_list(StandInQueue *queue)
{
    static BOOL is_begun;
    if (!is_begun) {
        pthread_t thread;
        is_begun = pthread_create(&thread, NULL, work, NULL) == 0;
        pthread_detach(thread);
    }
    if (!queue->is_listed) {
        queue->is_listed = YES;
        queue->next = listed;
        listed = [queue retain];
    }
    stand_in_changed();
}
