// A simulated design in the program of its host: what a testbench calls that has its own main loop.
//
// A simulator that is a process of its own loads the module of arrow-device-vpi, and none of this
// is needed. Verilator makes a library of a design. The program that runs the design links the
// module, libarrow_device_vpi_module, and calls it at the end of each moment of simulated time:
//
//     VerilatedContext context;
//     context.fatalOnVpiError(false);
//     Vdesign design{&context};
//     design.eval();
//     {
//         arrow_device::VpiServer server{descriptor};
//         while (!context.gotFinish() && server.step()) {
//             context.timeInc(5);
//             design.clk = !design.clk;
//             design.eval();
//         }
//     }
//
// The host opens the device from the other end of the socket (`Options::connection` in Rust), or by
// the path where the server listens (`Options::socket`, ARROW_DEVICE_VPI_CONNECT).
//
// Rules
//
// 1. The design is verilated with --vpi and --public-flat-rw, or has those parts public that the
//    host names. Paths are as in Verilog; the TOP that Verilator puts in front may be left out.
// 2. All functions are called on the thread that runs the design. Verilator's VPI is one for all
//    designs of a program, so one thread runs all designs that are served. The host works on other
//    threads: a step waits for the host while there is nothing to do.
// 3. A step comes after the design was evaluated, and before simulated time goes on. What the host
//    writes in a step belongs to that moment: registers see it at the next edge of their clock, and
//    nets that follow from it at the next evaluation.
// 4. Verilator's design lives until ardev_vpi_end has returned.
// 5. `fatalOnVpiError(false)` keeps the program alive where the host asks for the value of what has
//    no bits, such as a real number.
#ifndef ARROW_DEVICE_VPI_MODULE_H
#define ARROW_DEVICE_VPI_MODULE_H

#include "vpi_user.h"

#ifdef __cplusplus
extern "C" {
#endif

// The functions of the simulator, as the standard (IEEE 1364) has them. All are there.
typedef struct ArdevVpiFunctions {
    vpiHandle (*handle_by_name)(PLI_BYTE8 *name, vpiHandle scope);
    vpiHandle (*handle_by_index)(vpiHandle object, PLI_INT32 index);
    vpiHandle (*handle)(PLI_INT32 type, vpiHandle object);
    PLI_INT32 (*get)(PLI_INT32 property, vpiHandle object);
    void (*get_value)(vpiHandle object, p_vpi_value value);
    vpiHandle (*put_value)(vpiHandle object, p_vpi_value value, p_vpi_time time, PLI_INT32 flags);
    void (*get_time)(vpiHandle object, p_vpi_time time);
    PLI_INT32 (*get_vlog_info)(p_vpi_vlog_info info);
    PLI_INT32 (*release_handle)(vpiHandle object);
} ArdevVpiFunctions;

// Serves one host after the other.
typedef struct ArdevVpiServer ArdevVpiServer;

// Begins to serve hosts.
//
// functions   the simulator's; copied.
// descriptor  a connected Unix socket, at whose other end the host is. It becomes the server's
//             where the answer is 0. Not looked at where there is a path.
// path        null, or where the server makes a Unix socket to which one host after the other
//             connects. The file is removed at the end.
// server      gets the server.
//
// Returns 0, or a number of errno: EINVAL where an argument is null that may not be, EADDRINUSE
// where the path is taken.
int ardev_vpi_serve(const ArdevVpiFunctions *functions, int descriptor, const char *path,
                    ArdevVpiServer **server);

// Does everything that the host asks for and that needs no simulated time, and waits for the host
// while there is nothing to do. Returns 1 when simulated time has to go on: the program then
// evaluates the design at its next moment and calls again. Returns 0 when the host of a connected
// socket has gone.
int ardev_vpi_step(ArdevVpiServer *server);

// Tells the host, if there is one, that the simulation has ended, and frees the server. Null is
// nothing.
void ardev_vpi_end(ArdevVpiServer *server);

#ifdef __cplusplus
} // extern "C"

#include <system_error>

namespace arrow_device {

// A server that ends with this value.
class VpiServer {
public:
    // Serves the host at the other end of a connected socket, which becomes the server's.
    explicit VpiServer(int descriptor) { begin(descriptor, nullptr); }
    // Serves the hosts that connect to a new socket with this path.
    explicit VpiServer(const char *path) { begin(-1, path); }
    VpiServer(const VpiServer &) = delete;
    VpiServer &operator=(const VpiServer &) = delete;
    ~VpiServer() { ardev_vpi_end(server); }

    // See ardev_vpi_step.
    bool step() { return ardev_vpi_step(server) != 0; }

private:
    void begin(int descriptor, const char *path) {
        const ArdevVpiFunctions functions = {
            vpi_handle_by_name, vpi_handle_by_index, vpi_handle,
            vpi_get,            vpi_get_value,       vpi_put_value,
            vpi_get_time,       vpi_get_vlog_info,   vpi_release_handle,
        };
        const int code = ardev_vpi_serve(&functions, descriptor, path, &server);
        if (code != 0) {
            throw std::system_error(code, std::generic_category(), "ardev_vpi_serve");
        }
    }

    ArdevVpiServer *server = nullptr;
};

} // namespace arrow_device
#endif // __cplusplus

#endif // ARROW_DEVICE_VPI_MODULE_H
