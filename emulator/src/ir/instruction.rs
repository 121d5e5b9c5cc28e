//! One struct per instruction family, holding exactly the operands the family has.

use super::types::{Combine, Comparison, Space, Type};
use crate::number::Rounding;

/// A register of 32 lanes. A plane holds 32 bits per lane; 64-bit registers take two planes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Reg {
    pub plane: u32,
    pub wide: bool,
}

/// A predicate register as a source, possibly negated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pred {
    pub index: u32,
    pub negate: bool,
}

/// One instruction with its guard and its place in the PTX text.
#[derive(Clone, Debug)]
pub struct Instruction {
    pub op: Op,
    pub guard: Option<Pred>,
    pub line: u32,
    /// Index into `Kernel::mnemonics`.
    pub mnemonic: u16,
}

#[derive(Clone, Debug)]
pub enum Op {
    Integer(Integer),
    Bits(Bits),
    Float(Float),
    Compare(Compare),
    TestFloat(TestFloat),
    Logic(Logic),
    Select(Select),
    Convert(Convert),
    Move(Move),
    Pack(Pack),
    Unpack(Unpack),
    Clock(Reg),
    ActiveMask(Reg),
    ToGeneric { space: Space, d: Reg, a: Reg },
    FromGeneric { space: Space, d: Reg, a: Reg },
    IsSpace { space: Space, d: u32, a: Reg },
    Load(Access),
    Store(Access),
    Atomic(Atomic),
    CopyAsync(CopyAsync),
    CopyCommit,
    CopyWait { pending: Option<u32> },
    Shuffle(Shuffle),
    Vote(Vote),
    Match(Match),
    Reduce(Reduce),
    WarpBarrier { members: Reg },
    LoadMatrix(LoadMatrix),
    Mma(Box<Mma>),
    Barrier(Barrier),
    Branch { target: u32 },
    BranchTable { index: Reg, targets: Vec<u32> },
    Exit,
    Trap,
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntegerOp {
    Add,
    Sub,
    MulLo,
    MulHi,
    MulWide,
    Mul24,
    MadLo,
    MadHi,
    MadWide,
    Div,
    Rem,
    Abs,
    Neg,
    Min,
    Max,
    Sad,
    Dp4a { a_signed: bool, b_signed: bool },
}

#[derive(Clone, Copy, Debug)]
pub struct Integer {
    pub op: IntegerOp,
    pub ty: Type,
    pub d: Reg,
    pub a: Reg,
    pub b: Reg,
    pub c: Reg,
    pub carry_in: bool,
    pub carry_out: bool,
    pub saturate: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitsOp {
    And,
    Or,
    Xor,
    Not,
    Cnot,
    Shl,
    Shr,
    Popc,
    Clz,
    Brev,
    /// Position of the leading bit, or the shift that would bring it to the top.
    Bfind {
        shift_amount: bool,
    },
    Bfe,
    Bfi,
    Prmt,
    FunnelLeft {
        wrap: bool,
    },
    FunnelRight {
        wrap: bool,
    },
    Lop3 {
        table: u8,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Bits {
    pub op: BitsOp,
    pub ty: Type,
    pub d: Reg,
    pub s: [Reg; 4],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FloatOp {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Rcp,
    Sqrt,
    Min { nan: bool },
    Max { nan: bool },
    Abs,
    Neg,
    CopySign,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
    Rsqrt,
}

#[derive(Clone, Copy, Debug)]
pub struct Float {
    pub op: FloatOp,
    pub ty: Type,
    pub rounding: Rounding,
    pub flush: bool,
    pub saturate: bool,
    pub relu: bool,
    pub d: Reg,
    pub a: Reg,
    pub b: Reg,
    pub c: Reg,
}

/// `setp` (result in predicates) and `set` (result in a register).
#[derive(Clone, Copy, Debug)]
pub struct Compare {
    pub comparison: Comparison,
    pub ty: Type,
    pub flush: bool,
    pub a: Reg,
    pub b: Reg,
    pub combine: Option<(Combine, Pred)>,
    pub to: CompareTarget,
}

#[derive(Clone, Copy, Debug)]
pub enum CompareTarget {
    /// The result and, as second predicate, its complement (for packed types: the upper half).
    Predicates(u32, Option<u32>),
    Register(Reg, Type),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FloatClass {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

#[derive(Clone, Copy, Debug)]
pub struct TestFloat {
    pub class: FloatClass,
    pub ty: Type,
    pub d: u32,
    pub a: Reg,
}

/// Logic on predicates: `d = a op b`. Moves and negations are `a and a`.
#[derive(Clone, Copy, Debug)]
pub struct Logic {
    pub op: Combine,
    pub d: u32,
    pub a: Pred,
    pub b: Pred,
}

#[derive(Clone, Copy, Debug)]
pub struct Select {
    pub ty: Type,
    pub d: Reg,
    pub a: Reg,
    pub b: Reg,
    pub by: SelectBy,
}

#[derive(Clone, Copy, Debug)]
pub enum SelectBy {
    Pred(Pred),
    /// `slct`: `a` where the register is not negative.
    Sign(Reg, Type),
}

/// How a conversion rounds: to an integer value, or into the precision of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvertRounding {
    pub mode: Rounding,
    pub to_integer: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Convert {
    pub to: Type,
    pub from: Type,
    pub rounding: ConvertRounding,
    pub flush: bool,
    pub saturate: bool,
    pub relu: bool,
    pub d: Reg,
    pub a: Reg,
    /// The lower half, for conversions into packed types.
    pub b: Option<Reg>,
}

#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub ty: Type,
    pub d: Reg,
    pub a: Reg,
}

/// `mov` of a vector of registers into one wider register.
#[derive(Clone, Debug)]
pub struct Pack {
    pub d: Reg,
    pub s: Vec<Reg>,
    pub element_bits: u32,
}

#[derive(Clone, Debug)]
pub struct Unpack {
    pub d: Vec<Reg>,
    pub s: Reg,
    pub element_bits: u32,
}

/// `[base + offset]`; without a base the offset is the address.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub base: Option<Reg>,
    pub offset: u64,
}

/// A load or store of one to four elements per lane.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub space: Space,
    pub ty: Type,
    pub address: Address,
    pub regs: [Reg; 4],
    pub count: u8,
    /// `.nc`: the program promises that nothing writes there while the kernel runs
    pub constant: bool,
}

impl Access {
    pub fn regs(&self) -> &[Reg] {
        &self.regs[..self.count as usize]
    }

    pub fn bytes(&self) -> usize {
        self.ty.bytes() * self.count as usize
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    pub op: AtomicOp,
    pub space: Space,
    pub ty: Type,
    /// Absent for `red`.
    pub d: Option<Reg>,
    pub address: Address,
    pub b: Reg,
    pub c: Reg,
}

#[derive(Clone, Copy, Debug)]
pub struct CopyAsync {
    pub to: Address,
    pub from: Address,
    pub bytes: u32,
    pub source_bytes: Option<Reg>,
    /// Lanes whose source is ignored: zeros are written.
    pub ignore: Option<Pred>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    pub mode: ShuffleMode,
    pub d: Reg,
    /// True where the source lane was in range.
    pub in_range: Option<u32>,
    pub a: Reg,
    pub b: Reg,
    pub c: Reg,
    pub members: Reg,
}

#[derive(Clone, Copy, Debug)]
pub enum Vote {
    All { d: u32, a: Pred, members: Reg },
    Any { d: u32, a: Pred, members: Reg },
    Uniform { d: u32, a: Pred, members: Reg },
    Ballot { d: Reg, a: Pred, members: Reg },
}

#[derive(Clone, Copy, Debug)]
pub struct Match {
    pub all: bool,
    pub ty: Type,
    pub d: Reg,
    pub agrees: Option<u32>,
    pub a: Reg,
    pub members: Reg,
}

/// `redux.sync`.
#[derive(Clone, Copy, Debug)]
pub struct Reduce {
    pub op: AtomicOp,
    pub ty: Type,
    pub d: Reg,
    pub a: Reg,
    pub members: Reg,
}

#[derive(Clone, Copy, Debug)]
pub struct LoadMatrix {
    pub space: Space,
    pub transpose: bool,
    pub address: Address,
    pub regs: [Reg; 4],
    pub count: u8,
}

#[derive(Clone, Debug)]
pub struct Mma {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a_column_major: bool,
    pub b_column_major: bool,
    pub d_ty: Type,
    pub a_ty: Type,
    pub b_ty: Type,
    pub c_ty: Type,
    pub d: Vec<Reg>,
    pub a: Vec<Reg>,
    pub b: Vec<Reg>,
    pub c: Vec<Reg>,
}

#[derive(Clone, Copy, Debug)]
pub enum BarrierKind {
    Sync,
    Arrive,
    CountTrue { d: Reg, a: Pred },
    AllTrue { d: u32, a: Pred },
    AnyTrue { d: u32, a: Pred },
}

#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    pub kind: BarrierKind,
    pub id: Reg,
    /// Number of threads; all of the block without it.
    pub threads: Option<Reg>,
}
