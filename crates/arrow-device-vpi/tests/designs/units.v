// The memory of the crate, and units that tests start.
module arrow_device_top;
    reg clk = 0;
    always #5 clk = ~clk;

    ram_with_dma ram(.clk(clk));

    // Completes after `delay` clocks.
    reg        late_start = 0;
    reg [31:0] late_done = 0, delay = 0, passed = 0;
    always @(posedge clk) if (late_start) begin
        passed <= passed + 1;
        if (passed >= delay) begin
            passed    <= 0;
            late_done <= late_done + 1;
        end
    end

    // Never completes.
    reg        stuck_start = 0;
    reg [31:0] stuck_done = 0;

    // Completes, and reports a fault.
    reg        fault_start = 0;
    reg [31:0] fault_done = 0;
    always @(posedge clk) if (fault_start) begin
        fault_done <= fault_done + 1;
        ram.error  <= 77;
    end

    // Ends the simulation.
    reg ends = 0;
    reg never = 0;
    always @(posedge clk) if (ends) $finish;

    reg [7:0]  byte_wide = 8'h5a;
    reg [63:0] wide = 64'h0123456789abcdef;
    reg [15:0] half_known = 16'hxx12;
    wire       inverted = ~clk;

    initial if ($test$plusargs("greeting")) $display("a greeting of the design");
endmodule
