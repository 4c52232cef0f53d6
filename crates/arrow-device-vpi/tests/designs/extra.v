// What tests need beside the accelerator of the example, inside its top.
module extra;
    reg ends = 0;
    always @(posedge arrow_device_top.clk) if (ends) $finish;

    reg [4095:0] wide = 0;
    reg [7:0]    narrow = 8'h5a;
    real         fraction = 1.5;
    wire         inverted = ~arrow_device_top.clk;
endmodule
bind arrow_device_top extra extra();
