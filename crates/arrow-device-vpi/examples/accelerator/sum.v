// An accelerator that sums a column of 32-bit integers, some of which may be null.
//
// A host sets the addresses of the values, of the validity bitmap (0 if there is none) and of the
// result, the first row and the number of rows, and sets `start` to 1. The unit looks at one row in
// two clocks: in one at its validity, in the other one at its value. At the end it writes two
// numbers of 64 bits to the result, the sum and how many rows were not null, and adds 1 to `done`.
module sum_column #(
    parameter BYTES = 64
) (
    input  wire               clk,
    // The word of the memory in which `address` lies, in the same clock.
    output wire [63:0]        address,
    input  wire [8*BYTES-1:0] word,
    // The word in which `result` lies gets these bits.
    output reg                writes,
    output reg  [127:0]       written
);
    reg [63:0] values, validity, result, first, rows;
    reg        start = 0;
    reg [31:0] done  = 0;

    localparam IDLE = 0, VALIDITY = 1, VALUE = 2, RESULT = 3;
    reg [1:0]         state = IDLE;
    reg [63:0]        row, end_row;
    reg signed [63:0] sum;
    reg [63:0]        count;

    assign address = state == VALIDITY ? validity + row / 8 : values + 4 * row;
    wire [8*BYTES-1:0] shifted = word >> (8 * (address % BYTES));
    wire is_valid = shifted[row % 8];
    wire signed [31:0] value = shifted[31:0];

    initial writes = 0;

    always @(posedge clk) begin
        writes <= 0;
        case (state)
            IDLE: if (start) begin
                row     <= first;
                end_row <= first + rows;
                sum     <= 0;
                count   <= 0;
                state   <= rows == 0 ? RESULT : validity == 0 ? VALUE : VALIDITY;
            end
            VALIDITY: if (is_valid)
                state <= VALUE;
            else begin
                row   <= row + 1;
                state <= row + 1 == end_row ? RESULT : VALIDITY;
            end
            VALUE: begin
                sum   <= sum + value;
                count <= count + 1;
                row   <= row + 1;
                state <= row + 1 == end_row ? RESULT : validity == 0 ? VALUE : VALIDITY;
            end
            RESULT: if (!writes) begin
                writes  <= 1;
                written <= {count, sum};
            end else begin
                done  <= done + 1;
                state <= IDLE;
            end
        endcase
    end
endmodule

// The accelerator beside the memory.
module arrow_device_top;
    localparam BYTES = 64;

    reg clk = 0;
    always #5 clk = ~clk;

    ram_with_dma #(.BYTES(BYTES)) ram(.clk(clk));

    wire [63:0]        address;
    wire [8*BYTES-1:0] word = ram.mem[address / BYTES];
    wire               writes;
    wire [127:0]       written;
    sum_column #(.BYTES(BYTES)) sum(
        .clk(clk), .address(address), .word(word), .writes(writes), .written(written)
    );
    // The result lies at the beginning of a word.
    always @(posedge clk) if (writes) ram.mem[sum.result / BYTES][127:0] <= written;
endmodule
