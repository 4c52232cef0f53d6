// A memory and the engine that copies inside it.
//
// A host sets `src`, `dst` and `len` (addresses and a number of bytes), and sets `start` to 1. The
// engine begins when it is idle and `start` is 1 at a rising edge of the clock, writes one word of
// the destination per clock, and adds 1 to `done` with the last word. The host sets `start` back to
// 0 when `done` changes, which is before the next edge. Source and destination may lie at any byte,
// and do not overlap. A copy that leaves the memory is not made, and sets `error`.
module ram_with_dma #(
    parameter WORDS = 524288,
    parameter BYTES = 64
) (
    input wire clk
);
    localparam BITS = 8 * BYTES;

    reg [BITS-1:0] mem [0:WORDS-1];

    reg [63:0] src, dst, len;
    reg        start = 0;
    reg [31:0] done  = 0;
    reg [31:0] error = 0;

    reg        busy = 0;
    reg [63:0] from, to, left;

    // What the engine does in this clock: `count` bytes, up to the end of the destination's word.
    wire [63:0] from_word = from / BYTES;
    wire [63:0] from_byte = from % BYTES;
    wire [63:0] to_word   = to / BYTES;
    wire [63:0] to_byte   = to % BYTES;
    wire [63:0] room      = BYTES - to_byte;
    wire [63:0] count     = left < room ? left : room;
    wire        is_whole  = from_byte == 0 && count == BYTES;

    reg [2*BITS-1:0] window;
    reg [BITS-1:0]   mask;

    wire is_inside = src + len <= WORDS * BYTES && dst + len <= WORDS * BYTES;

    always @(posedge clk) begin
        if (!busy) begin
            if (start) begin
                if (len == 0 || !is_inside) begin
                    error <= is_inside ? error : 1;
                    done  <= done + 1;
                end else begin
                    busy <= 1;
                    from <= src;
                    to   <= dst;
                    left <= len;
                end
            end
        end else begin
            if (is_whole)
                mem[to_word] <= mem[from_word];
            else begin
                // Two neighbouring words hold all bytes of the source that are needed.
                window = {mem[from_word + 1], mem[from_word]} >> (8 * from_byte);
                mask   = ({BITS{1'b1}} >> (8 * (BYTES - count))) << (8 * to_byte);
                mem[to_word] <= (mem[to_word] & ~mask) | ((window[BITS-1:0] << (8 * to_byte)) & mask);
            end
            from <= from + count;
            to   <= to + count;
            left <= left - count;
            if (left == count) begin
                busy <= 0;
                done <= done + 1;
            end
        end
    end
endmodule
