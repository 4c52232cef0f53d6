// The design that is simulated where no other one is named: a clock, and a memory with an engine
// that copies.
module arrow_device_top;
    reg clk = 0;
    always #5 clk = ~clk;

    ram_with_dma ram(.clk(clk));
endmodule
