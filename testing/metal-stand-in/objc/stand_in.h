/* What the parts of the stand-in share: objects that are counted, the lock, and what is noticed. */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <objc/objc.h>
#include <objc/runtime.h>
#include <stdint.h>
#include <stdlib.h>

typedef unsigned long NSUInteger;

/* This compiler has no `_Atomic` in Objective-C. */
typedef int atomic_int;
typedef long atomic_long;
#define atomic_load(place) __atomic_load_n(place, __ATOMIC_SEQ_CST)
#define atomic_store(place, value) __atomic_store_n(place, value, __ATOMIC_SEQ_CST)
#define atomic_exchange(place, value) __atomic_exchange_n(place, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_add(place, value) __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST)
#define atomic_fetch_sub(place, value) __atomic_fetch_sub(place, value, __ATOMIC_SEQ_CST)

/* The lock of all state that is not atomic. */
void stand_in_lock(void);
void stand_in_unlock(void);
/* Waits with the lock for a change of any state; `milliseconds` below 0 is no limit. */
void stand_in_wait_for_change(int64_t milliseconds);
/* With the lock: wakes whoever waits. */
void stand_in_changed(void);

/* Notes a mistake of the caller. A test reads the list at its end. Takes no lock of the above. */
void stand_in_mistake(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The root of all classes. An object whose count comes to 0 is emptied, and kept for a while so
 * that a later use of it is noticed. */
__attribute__((objc_root_class))
@interface StandInObject
{
  @public
    Class isa;
    long count;
}
+ (id)make;
- (id)retain;
- (void)release;
- (id)autorelease;
- (BOOL)respondsToSelector:(SEL)selector;
- (BOOL)conformsToProtocol:(id)protocol;
/* Gives back what the object has. */
- (void)empty;
@end

/* Notes a mistake where the thread has no pool. Methods of Metal may use objects that only a pool
 * releases, whatever they return. */
void stand_in_needs_pool(const char *what);

/* Whether the object is alive. A dead one is a mistake, and so is a use without a pool. */
BOOL stand_in_alive(StandInObject *object, const char *what);

@interface StandInString : StandInObject
{
  @public
    const char *text;
}
- (const char *)UTF8String;
@end
StandInString *stand_in_string(const char *text);

@interface StandInArray : StandInObject
{
  @public
    id elements[8];
    NSUInteger length;
}
- (NSUInteger)count;
- (id)objectAtIndex:(NSUInteger)index;
@end

@interface StandInError : StandInObject
{
  @public
    long code;
}
- (long)code;
@end

@protocol MTLDevice
- (uint64_t)registryID;
@end
@protocol MTLBuffer
- (void *)contents;
@end
@protocol MTLEvent
- (id)device;
@end
@protocol MTLSharedEvent <MTLEvent>
- (uint64_t)signaledValue;
@end
@protocol MTLCommandQueue
- (id)commandBuffer;
@end

@interface StandInDevice : StandInObject <MTLDevice>
{
  @public
    int number;
    atomic_int is_lost;
}
@end

@interface StandInBuffer : StandInObject <MTLBuffer>
{
  @public
    StandInDevice *device;
    void *bytes;
    NSUInteger length, mode;
    BOOL owns;
}
- (void *)contents;
@end

/* An event that only queues can signal and wait for. */
@interface StandInPlainEvent : StandInObject <MTLEvent>
{
  @public
    StandInDevice *device;
    uint64_t value;
}
@end
@interface StandInEvent : StandInPlainEvent <MTLSharedEvent>
@end

@interface StandInQueue : StandInObject <MTLCommandQueue>
{
  @public
    StandInDevice *device;
    NSUInteger most;
    /* With the lock: how many command buffers are made and not finished. */
    NSUInteger unfinished;
    /* With the lock: what was committed and is not finished. */
    struct CommittedList {
        id first, last;
    } committed;
    StandInQueue *next;
    BOOL is_listed;
}
@end

enum Operation { COPY, SIGNAL, WAIT };

struct Command {
    enum Operation operation;
    id source, destination; /* The event, where there is one. */
    NSUInteger from, to, length;
    uint64_t value;
};

@interface StandInCommands : StandInObject
{
  @public
    StandInQueue *queue;
    struct Command *commands;
    int length, done;
    id encoder;
    /* Metal's numbers: 0 not enqueued, 2 committed, 4 completed, 5 failed. */
    NSUInteger status;
    StandInError *error;
    StandInCommands *next;
    BOOL fails, was_committed;
}
@end

@interface StandInEncoder : StandInObject
{
  @public
    StandInCommands *commands;
    BOOL has_ended;
}
@end

void *objc_autoreleasePoolPush(void);

/* With the lock: hands a queue with committed work to the thread that does the work. */
void stand_in_list(StandInQueue *queue);

/* Whether the next commands that copy fail, with which code; 0 where not. */
extern atomic_long stand_in_failure;
/* How long a command buffer waits for its turn, in nanoseconds. */
extern atomic_long stand_in_delay;
/* How often a thread waited for a free command buffer. */
extern atomic_long stand_in_blocked;
/* How many bytes of buffers there may be. */
extern atomic_long stand_in_room;
/* How many objects there are. */
extern atomic_long stand_in_objects;
/* How many copies were made by queues. */
extern atomic_long stand_in_copies;

#endif
