/* The program on the DSP: does the commands of a ring, one after the other.
 *
 * The ring and all buffers are files of memory of another process, which this program opens by
 * /proc/PID/fd/N and maps as long as a command needs them, as a DSP maps memory by its descriptor.
 * A command is begun when the processor has raised `gate` to its number, and never before it was
 * submitted. Its results are written after that, and then `tail` is raised.
 *
 * The file is compiled for Linux on a Hexagon DSP, without a C library, to run under qemu-hexagon;
 * or for the machine's own processor. The layout of the ring is that of src/ring.rs.
 */

typedef unsigned int u32;
typedef int i32;
typedef unsigned char u8;

#if defined(__hexagon__)

static long sys(long n, long a, long b, long c, long d, long e, long f) {
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r3 __asm__("r3") = d;
  register long r4 __asm__("r4") = e;
  register long r5 __asm__("r5") = f;
  register long r6 __asm__("r6") = n;
  __asm__ volatile("trap0(#1)"
                   : "+r"(r0)
                   : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6)
                   : "memory");
  return r0;
}
#  define SYS_OPENAT 56
#  define SYS_CLOSE 57
#  define SYS_EXIT 94
#  define SYS_FUTEX 98
#  define SYS_YIELD 124
#  define SYS_GETPPID 173
#  define SYS_MUNMAP 215
#  define SYS_MMAP 222

int run(int argc, char **argv);

void begin(long *stack) {
  sys(SYS_EXIT, run((int)stack[0], (char **)(stack + 1)), 0, 0, 0, 0, 0);
  for (;;) {
  }
}

__asm__(".globl _start\n"
        "_start:\n"
        "  { r0 = r29 }\n"
        "  { call begin }\n");

#else

#  include <sys/syscall.h>
#  include <unistd.h>
#  define sys syscall
#  define SYS_OPENAT SYS_openat
#  define SYS_CLOSE SYS_close
#  define SYS_EXIT SYS_exit_group
#  define SYS_FUTEX SYS_futex
#  define SYS_YIELD SYS_sched_yield
#  define SYS_GETPPID SYS_getppid
#  define SYS_MUNMAP SYS_munmap
#  define SYS_MMAP SYS_mmap

int run(int argc, char **argv);

int main(int argc, char **argv) { return run(argc, argv); }

#endif

enum { COMMANDS = 1024 };
enum { COPY = 1, SPIN = 2, ADD = 3, FILTER = 4, FAIL = 5, DIE = 6 };

struct operand {
  u32 fd, offset, len;
};

struct command {
  u32 what;
  u32 argument;
  struct operand operands[3];
  u32 padding[5];
};

struct ring {
  u32 head, tail, gate, failed, is_up, padding[11];
  struct command commands[COMMANDS];
};

static u32 load(u32 *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

static void store(u32 *word, u32 value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

static void wake(u32 *word) { sys(SYS_FUTEX, (long)word, 1, 0x7fffffff, 0, 0, 0); }

static const char *parent;

static long number_in(const char *text) {
  long number = 0;
  while (*text) number = 10 * number + (*text++ - '0');
  return number;
}

/* Waits until the word has another value. Somebody wakes whoever waits after each change. Ends the
 * program where the process that started it is gone. */
static void await_change(u32 *word, u32 value) {
  long second[2] = {1, 0};
  sys(SYS_FUTEX, (long)word, 0, (long)value, (long)second, 0, 0);
  if (sys(SYS_GETPPID, 0, 0, 0, 0, 0, 0) != number_in(parent)) sys(SYS_EXIT, 0, 0, 0, 0, 0, 0);
}

/* Maps the first bytes of a file of the parent, by its descriptor there. */
static u8 *map(u32 fd, u32 len) {
  char path[64], digits[12];
  int at = 0, count = 0;
  for (const char *from = "/proc/"; *from; from++) path[at++] = *from;
  for (const char *from = parent; *from; from++) path[at++] = *from;
  for (const char *from = "/fd/"; *from; from++) path[at++] = *from;
  do {
    digits[count++] = (char)('0' + fd % 10);
    fd /= 10;
  } while (fd);
  while (count) path[at++] = digits[--count];
  path[at] = 0;
  long file = sys(SYS_OPENAT, -100, (long)path, 2, 0, 0, 0);
  if (file < 0) return 0;
  long mapped = sys(SYS_MMAP, 0, (long)len, 3, 1, file, 0);
  sys(SYS_CLOSE, file, 0, 0, 0, 0, 0);
  return mapped < 0 && mapped > -4096 ? 0 : (u8 *)mapped;
}

/* Does one command. Returns 0 where it fails. */
static int perform(struct command *command) {
  struct operand *operands = command->operands;
  u8 *mapped[3] = {0, 0, 0};
  int is_done = 1;
  for (int i = 0; i < 3; i++) {
    if (!operands[i].len) continue;
    mapped[i] = map(operands[i].fd, operands[i].offset + operands[i].len);
    if (!mapped[i]) is_done = 0;
  }
  u8 *from = mapped[0] + operands[0].offset, *to = mapped[1] + operands[1].offset;
  u8 *count = mapped[2] + operands[2].offset;
  u32 values = operands[0].len / 4;
  if (is_done) switch (command->what) {
      case COPY:
        for (u32 i = 0; i < operands[0].len; i++) to[i] = from[i];
        break;
      case SPIN:
        for (volatile u32 i = 0; i < command->argument; i++) {
        }
        break;
      case ADD:
        for (u32 i = 0; i < values; i++) ((u32 *)to)[i] = ((u32 *)from)[i] + command->argument;
        break;
      case FILTER: {
        u32 kept = 0;
        for (u32 i = 0; i < values; i++)
          if (((i32 *)from)[i] > (i32)command->argument) ((i32 *)to)[kept++] = ((i32 *)from)[i];
        *(u32 *)count = kept;
        break;
      }
      case DIE:
        for (u32 i = 0; i < operands[1].len / 2; i++) to[i] = 0xdd;
        sys(SYS_EXIT, 9, 0, 0, 0, 0, 0);
        break;
      default:
        is_done = 0;
    }
  for (int i = 0; i < 3; i++)
    if (mapped[i]) sys(SYS_MUNMAP, (long)mapped[i], operands[i].offset + operands[i].len, 0, 0, 0, 0);
  return is_done;
}

int run(int argc, char **argv) {
  if (argc != 3) return 2;
  parent = argv[1];
  struct ring *ring = (struct ring *)map((u32)number_in(argv[2]), sizeof(struct ring));
  if (!ring) return 3;
  store(&ring->is_up, 1);
  wake(&ring->is_up);
  for (;;) {
    u32 done = load(&ring->tail), head = load(&ring->head), gate = load(&ring->gate);
    if (done == head) {
      await_change(&ring->head, head);
      continue;
    }
    if (done >= gate) {
      await_change(&ring->gate, gate);
      continue;
    }
    /* Everybody else may look before the command begins. */
    for (int i = 0; i < 20; i++) sys(SYS_YIELD, 0, 0, 0, 0, 0, 0);
    /* What was submitted behind a command that failed is not done. */
    if (!load(&ring->failed) && !perform(&ring->commands[done % COMMANDS]))
      store(&ring->failed, done + 1);
    store(&ring->tail, done + 1);
    wake(&ring->tail);
  }
}
