//! A compute shader, written down as the instructions that SPIR-V is made of: no compiler is needed
//! to build this.
//!
//! ```text
//! layout(local_size_x = 8) in;
//! layout(binding = 0) buffer Numbers { int numbers[]; };
//! layout(binding = 1) buffer Squares { int squares[]; };
//! void main() {
//!     int row = int(gl_GlobalInvocationID.x);
//!     numbers[row] = row;
//!     squares[row] = row * row;
//! }
//! ```

/// Rows for each work group.
pub(crate) const LOCAL_SIZE: u32 = 8;

const MAGIC: u32 = 0x0723_0203;
const VERSION_1_0: u32 = 0x0001_0000;

// The numbers of things, all below BOUND.
const MAIN: u32 = 1;
const VOID: u32 = 2;
const FUNCTION: u32 = 3;
const UINT: u32 = 4;
const UVEC3: u32 = 5;
const UVEC3_INPUT: u32 = 6;
const INVOCATION: u32 = 7;
const INT: u32 = 8;
const INTS: u32 = 9;
const BLOCK: u32 = 10;
const BLOCK_POINTER: u32 = 11;
const NUMBERS: u32 = 12;
const SQUARES: u32 = 13;
const ZERO: u32 = 14;
const INT_POINTER: u32 = 15;
const LABEL: u32 = 16;
const ALL_THREE: u32 = 17;
const X: u32 = 18;
const ROW: u32 = 19;
const NUMBER_PLACE: u32 = 20;
const SQUARE: u32 = 21;
const SQUARE_PLACE: u32 = 22;
const BOUND: u32 = 23;

const INPUT: u32 = 1;
const UNIFORM: u32 = 2;

/// Operation codes with their operands.
const INSTRUCTIONS: &[(u32, &[u32])] = &[
    // OpCapability Shader; OpMemoryModel Logical GLSL450
    (17, &[1]),
    (14, &[0, 1]),
    // OpEntryPoint GLCompute MAIN "main" INVOCATION; OpExecutionMode MAIN LocalSize
    (15, &[5, MAIN, u32::from_le_bytes(*b"main"), 0, INVOCATION]),
    (16, &[MAIN, 17, LOCAL_SIZE, 1, 1]),
    // OpDecorate INVOCATION BuiltIn GlobalInvocationId
    (71, &[INVOCATION, 11, 28]),
    // OpDecorate INTS ArrayStride 4; OpMemberDecorate BLOCK 0 Offset 0; OpDecorate BLOCK
    // BufferBlock
    (71, &[INTS, 6, 4]),
    (72, &[BLOCK, 0, 35, 0]),
    (71, &[BLOCK, 3]),
    // OpDecorate DescriptorSet 0 and Binding
    (71, &[NUMBERS, 34, 0]),
    (71, &[NUMBERS, 33, 0]),
    (71, &[SQUARES, 34, 0]),
    (71, &[SQUARES, 33, 1]),
    // OpTypeVoid; OpTypeFunction
    (19, &[VOID]),
    (33, &[FUNCTION, VOID]),
    // OpTypeInt 32 unsigned; OpTypeVector; OpTypePointer Input; OpVariable
    (21, &[UINT, 32, 0]),
    (23, &[UVEC3, UINT, 3]),
    (32, &[UVEC3_INPUT, INPUT, UVEC3]),
    (59, &[UVEC3_INPUT, INVOCATION, INPUT]),
    // OpTypeInt 32 signed; OpTypeRuntimeArray; OpTypeStruct; OpTypePointer Uniform; OpVariable
    (21, &[INT, 32, 1]),
    (29, &[INTS, INT]),
    (30, &[BLOCK, INTS]),
    (32, &[BLOCK_POINTER, UNIFORM, BLOCK]),
    (59, &[BLOCK_POINTER, NUMBERS, UNIFORM]),
    (59, &[BLOCK_POINTER, SQUARES, UNIFORM]),
    // OpConstant 0; OpTypePointer Uniform
    (43, &[INT, ZERO, 0]),
    (32, &[INT_POINTER, UNIFORM, INT]),
    // OpFunction None; OpLabel
    (54, &[VOID, MAIN, 0, FUNCTION]),
    (248, &[LABEL]),
    // OpLoad; OpCompositeExtract 0; OpBitcast
    (61, &[UVEC3, ALL_THREE, INVOCATION]),
    (81, &[UINT, X, ALL_THREE, 0]),
    (124, &[INT, ROW, X]),
    // OpAccessChain; OpStore
    (65, &[INT_POINTER, NUMBER_PLACE, NUMBERS, ZERO, ROW]),
    (62, &[NUMBER_PLACE, ROW]),
    // OpIMul; OpAccessChain; OpStore
    (132, &[INT, SQUARE, ROW, ROW]),
    (65, &[INT_POINTER, SQUARE_PLACE, SQUARES, ZERO, ROW]),
    (62, &[SQUARE_PLACE, SQUARE]),
    // OpReturn; OpFunctionEnd
    (253, &[]),
    (56, &[]),
];

/// The module, word by word.
pub(crate) fn squares() -> Vec<u32> {
    let mut words = vec![MAGIC, VERSION_1_0, 0, BOUND, 0];
    for (code, operands) in INSTRUCTIONS {
        // "The high-order 16 bits are the word count of the instruction", its first word included.
        words.push((operands.len() as u32 + 1) << 16 | code);
        words.extend_from_slice(operands);
    }
    words
}
