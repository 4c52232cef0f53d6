// A design whose clock runs only while a gate is open, and a unit that never completes.
module arrow_device_top;
    reg clk = 0, gate = 0;
    always begin
        wait (gate);
        #5 clk = ~clk;
    end

    ram_with_dma ram(.clk(clk));

    reg        stuck_start = 0;
    reg [31:0] stuck_done = 0;
endmodule
