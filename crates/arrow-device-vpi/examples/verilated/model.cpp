// The design in the program of its host: the main loop of Verilator, which the host starts on a
// thread of its own.

#include <cstdio>
#include <exception>
#include <memory>

#include "Vdesign.h"
#include "arrow_device/vpi_module.h"
#include "verilated.h"

using arrow_device::VpiServer;

// Runs the design for the host at the other end of a socket, until the host has gone or the design
// ends the simulation. The socket becomes the design's. Where there is a path, the design is run
// for all hosts that connect there, one after the other. Returns 0, or 1 where there is an error.
extern "C" int run_design(int descriptor, const char *path) {
    VerilatedContext context;
    // What the host asks in vain is an error of the host's, and not the end of the program.
    context.fatalOnVpiError(false);
    Vdesign design{&context};
    design.eval();
    try {
        // Ends before the design does.
        const auto server = path != nullptr ? std::make_unique<VpiServer>(path)
                                            : std::make_unique<VpiServer>(descriptor);
        while (!context.gotFinish() && server->step()) {
            // The design makes its own clock (`verilator --timing`). Another one's top has an input
            // that is set here.
            context.time(design.nextTimeSlot());
            design.eval();
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "the design is not served: %s\n", error.what());
        return 1;
    }
    design.final();
    return 0;
}
