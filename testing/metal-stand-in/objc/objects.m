/* Objects, pools and mistakes. */
#include "stand_in.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;

void stand_in_lock(void) { pthread_mutex_lock(&lock); }
void stand_in_unlock(void) { pthread_mutex_unlock(&lock); }
void stand_in_changed(void) { pthread_cond_broadcast(&change); }

void stand_in_wait_for_change(int64_t milliseconds)
{
    if (milliseconds < 0) {
        pthread_cond_wait(&change, &lock);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += milliseconds % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&change, &lock, &until);
}

/* ---- mistakes */

static pthread_mutex_t mistakes_lock = PTHREAD_MUTEX_INITIALIZER;
static char mistakes[1 << 14];

void stand_in_mistake(const char *format, ...)
{
    pthread_mutex_lock(&mistakes_lock);
    size_t length = strlen(mistakes);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(mistakes + length, sizeof mistakes - length - 1, format, arguments);
    va_end(arguments);
    strncat(mistakes, "\n", sizeof mistakes - strlen(mistakes) - 1);
    pthread_mutex_unlock(&mistakes_lock);
}

/* Copies the mistakes that were noticed into `text` and forgets them. Returns their length. */
size_t stand_in_take_mistakes(char *text, size_t room)
{
    pthread_mutex_lock(&mistakes_lock);
    size_t length = strlen(mistakes);
    if (room) {
        snprintf(text, room, "%s", mistakes);
        mistakes[0] = 0;
    }
    pthread_mutex_unlock(&mistakes_lock);
    return length;
}

/* ---- objects */

atomic_long stand_in_objects;

/* Dead objects, oldest first overwritten. */
enum { KEPT = 1 << 16 };
static id dead[KEPT];
static size_t next_dead;

static void bury(id object)
{
    pthread_mutex_lock(&mistakes_lock);
    id oldest = dead[next_dead];
    dead[next_dead] = object;
    next_dead = (next_dead + 1) % KEPT;
    pthread_mutex_unlock(&mistakes_lock);
    if (oldest) {
        object_dispose(oldest);
    }
}

/* The objects of all pools of a thread, where a null pointer begins a pool. */
static __thread id *pooled;
static __thread size_t pooled_length, pooled_room;

void stand_in_needs_pool(const char *what)
{
    if (pooled_length == 0) {
        stand_in_mistake("%s: the thread has no pool", what);
    }
}

BOOL stand_in_alive(StandInObject *object, const char *what)
{
    stand_in_needs_pool(what);
    if (object && atomic_load(&object->count) > 0) {
        return YES;
    }
    stand_in_mistake("%s: an object that was released, or none", what);
    return NO;
}

@implementation StandInObject
+ (id)make
{
    StandInObject *object = class_createInstance(self, 0);
    atomic_store(&object->count, 1);
    atomic_fetch_add(&stand_in_objects, 1);
    return object;
}
- (id)retain
{
    if (atomic_fetch_add(&count, 1) <= 0) {
        stand_in_mistake("retain: a %s that was released", class_getName(isa));
    }
    return self;
}
- (void)release
{
    long before = atomic_fetch_sub(&count, 1);
    if (before < 1) {
        stand_in_mistake("release: a %s that was released", class_getName(isa));
    } else if (before == 1) {
        stand_in_needs_pool("the end of an object");
        [self empty];
        atomic_fetch_sub(&stand_in_objects, 1);
        bury(self);
    }
}
- (BOOL)respondsToSelector:(SEL)selector
{
    return class_respondsToSelector(isa, selector);
}
- (BOOL)conformsToProtocol:(id)protocol
{
    for (Class class = isa; class; class = class_getSuperclass(class)) {
        if (class_conformsToProtocol(class, (Protocol *)protocol)) {
            return YES;
        }
    }
    return NO;
}
- (void)empty
{
}

/* ---- pools */

static void put(id object)
{
    if (pooled_length == pooled_room) {
        pooled_room = pooled_room ? pooled_room * 2 : 16;
        pooled = realloc(pooled, pooled_room * sizeof *pooled);
    }
    pooled[pooled_length++] = object;
}

- (id)autorelease
{
    if (pooled_length == 0) {
        stand_in_mistake("a %s is released by no pool", class_getName(isa));
    } else {
        put(self);
    }
    return self;
}
@end

void *objc_autoreleasePoolPush(void)
{
    put(nil);
    return (void *)pooled_length;
}

void objc_autoreleasePoolPop(void *pool)
{
    if ((size_t)pool > pooled_length || (size_t)pool == 0) {
        stand_in_mistake("a pool that is not this thread's newest is ended");
        return;
    }
    while (pooled_length >= (size_t)pool) {
        [pooled[--pooled_length] release];
    }
    if (pooled_length == 0) {
        free(pooled);
        pooled = NULL;
        pooled_room = 0;
    }
}

/* ---- small classes of Foundation */

@implementation StandInString
- (const char *)UTF8String
{
    return stand_in_alive(self, "UTF8String") ? text : "";
}
@end

StandInString *stand_in_string(const char *text)
{
    StandInString *string = [StandInString make];
    string->text = text;
    return [string autorelease];
}

@implementation StandInArray
- (NSUInteger)count
{
    return length;
}
- (id)objectAtIndex:(NSUInteger)index
{
    stand_in_needs_pool("objectAtIndex:");
    if (index >= length) {
        stand_in_mistake("objectAtIndex: %lu of %lu", index, length);
        return nil;
    }
    return elements[index];
}
- (void)empty
{
    for (NSUInteger i = 0; i < length; i++) {
        [elements[i] release];
    }
}
@end

@implementation StandInError
- (long)code
{
    stand_in_needs_pool("code");
    return code;
}
@end
