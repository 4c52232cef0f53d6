/* What Rust's standard library needs of Windows and Wine 8 lacks: random bytes, from an older
 * function. Built as `bcryptprimitives.dll` for programs that run under Wine. */

#include <stddef.h>

__declspec(dllimport) unsigned char __stdcall SystemFunction036(void* bytes, unsigned long count);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char* bytes, size_t count) {
  return SystemFunction036(bytes, (unsigned long)count);
}
