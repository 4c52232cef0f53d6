// A memory whose engine copies whole words only, and whose reset takes some time.
module tb;
    reg clk = 0;
    always #1 clk = ~clk;

    reg reset = 1;
    initial #100 reset = 0;

    reg [127:0] words [524287:0];
    reg [31:0]  source, destination, length;
    reg         go = 0;
    reg [7:0]   completed;
    reg         busy;

    always @(posedge clk) begin
        if (reset) begin
            busy      <= 0;
            completed <= 250;
        end else if (!busy) begin
            busy <= go && length != 0;
            if (go && length == 0) completed <= completed + 1;
        end else begin
            words[destination / 16] <= words[source / 16];
            source      <= source + 16;
            destination <= destination + 16;
            length      <= length - 16;
            if (length <= 16) begin
                busy      <= 0;
                completed <= completed + 1;
            end
        end
    end
endmodule
