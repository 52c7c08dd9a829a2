//! Compiles and runs random expressions, and compares them with arithmetic of unlimited precision.
//!
//! BMv2 computes with integers of any size, and p4c puts masks where P4 wraps around. The switch
//! computes in the fewest bits that give the same result, and refuses expressions that it cannot
//! compute.

use std::sync::Arc;

use num_bigint::{BigInt, BigUint, Sign};
use proptest::prelude::*;
use serde_json::{Value, json};
use tributary_softswitch::{LoadError, Outputs, Pipeline, Switch};

/// Widths of the operands' fields. Neighbouring fields share bytes.
const WIDTHS: [u32; 22] =
    [1, 7, 5, 3, 8, 16, 31, 1, 32, 33, 31, 48, 63, 1, 64, 72, 128, 512, 520, 2048, 128, 2048];
/// Widths of the result fields.
const TARGETS: [u32; 6] = [8, 40, 64, 128, 520, 2048];

/// An expression whose value is an integer.
#[derive(Debug, Clone)]
enum Number {
    Field(usize),
    Const(BigUint),
    Binary(&'static str, Box<Number>, Box<Number>),
    Not(Box<Number>),
    /// The lowest bits of a number, with a mask as p4c writes it.
    Masked(Box<Number>, u32),
    Choose(Box<Truth>, Box<Number>, Box<Number>),
    OfTruth(Box<Truth>),
}

/// An expression whose value is a truth value.
#[derive(Debug, Clone)]
enum Truth {
    Compare(&'static str, Box<Number>, Box<Number>),
    Both(Box<Truth>, Box<Truth>),
    Either(Box<Truth>, Box<Truth>),
    Not(Box<Truth>),
}

fn expression(op: &str, left: &Value, right: &Value) -> Value {
    json!({ "type": "expression", "value": { "op": op, "left": left, "right": right } })
}

fn hexstr(value: &BigUint) -> Value {
    json!({ "type": "hexstr", "value": format!("0x{value:x}") })
}

fn mask(bits: u32) -> BigUint {
    (BigUint::from(1_u8) << bits) - 1_u8
}

impl Number {
    fn json(&self) -> Value {
        match self {
            Self::Field(index) => json!({ "type": "field", "value": ["in", format!("f{index}")] }),
            Self::Const(value) => hexstr(value),
            Self::Binary(op, left, right) => expression(op, &left.json(), &right.json()),
            Self::Not(operand) => expression("~", &Value::Null, &operand.json()),
            Self::Masked(operand, bits) => expression("&", &operand.json(), &hexstr(&mask(*bits))),
            Self::Choose(cond, yes, no) => json!({ "type": "expression", "value": {
                "op": "?", "cond": cond.json(), "left": yes.json(), "right": no.json() } }),
            Self::OfTruth(truth) => expression("b2d", &Value::Null, &truth.json()),
        }
    }

    fn eval(&self, fields: &[BigUint]) -> BigInt {
        match self {
            Self::Field(index) => fields[*index].clone().into(),
            Self::Const(value) => value.clone().into(),
            Self::Binary(op, left, right) => {
                let (left, right) = (left.eval(fields), right.eval(fields));
                let by = || u32::try_from(right.clone()).unwrap();
                match *op {
                    "+" => left + right,
                    "-" => left - right,
                    "*" => left * right,
                    "&" => left & right,
                    "|" => left | right,
                    "^" => left ^ right,
                    "<<" => left << by(),
                    _ => left >> by(),
                }
            }
            Self::Not(operand) => -operand.eval(fields) - 1,
            Self::Masked(operand, bits) => operand.eval(fields) & BigInt::from(mask(*bits)),
            Self::Choose(cond, yes, no) => if cond.eval(fields) { yes } else { no }.eval(fields),
            Self::OfTruth(truth) => u8::from(truth.eval(fields)).into(),
        }
    }
}

impl Truth {
    fn always() -> Self {
        let zero = || Box::new(Number::Const(BigUint::ZERO));
        Self::Compare("==", zero(), zero())
    }

    fn json(&self) -> Value {
        match self {
            Self::Compare(op, left, right) => expression(op, &left.json(), &right.json()),
            Self::Both(left, right) => expression("and", &left.json(), &right.json()),
            Self::Either(left, right) => expression("or", &left.json(), &right.json()),
            Self::Not(operand) => expression("not", &Value::Null, &operand.json()),
        }
    }

    fn eval(&self, fields: &[BigUint]) -> bool {
        match self {
            Self::Compare(op, left, right) => {
                let order = left.eval(fields).cmp(&right.eval(fields));
                match *op {
                    "==" => order.is_eq(),
                    "!=" => order.is_ne(),
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    _ => order.is_ge(),
                }
            }
            Self::Both(left, right) => left.eval(fields) && right.eval(fields),
            Self::Either(left, right) => left.eval(fields) || right.eval(fields),
            Self::Not(operand) => !operand.eval(fields),
        }
    }
}

/// Generates a number of `width` bits, often with runs of zeros or ones.
fn bits(width: u32) -> impl Strategy<Value = BigUint> {
    let limb = prop_oneof![2 => any::<u32>(), 1 => Just(0), 1 => Just(u32::MAX)];
    prop::collection::vec(limb, width.div_ceil(32) as usize)
        .prop_map(move |limbs| BigUint::new(limbs) & mask(width))
}

fn leaf() -> impl Strategy<Value = Number> {
    prop_oneof![
        3 => (0..WIDTHS.len()).prop_map(Number::Field),
        1 => prop::sample::select(vec![1_u32, 8, 32, 64, 65, 512, 2048]).prop_flat_map(bits).prop_map(Number::Const),
        1 => (0_u32..70).prop_map(|value| Number::Const(value.into())),
    ]
}

/// Generates a shift amount as in P4 programs: field 4 (8 bits), field 2 (5 bits) or a constant.
fn amount() -> impl Strategy<Value = Number> {
    prop_oneof![
        prop::sample::select(vec![2_usize, 4]).prop_map(Number::Field),
        (0_u32..600).prop_map(|value| Number::Const(value.into())),
    ]
}

/// Variants of an addition in lanes of 32 bits.
#[derive(Debug, Clone, Default)]
struct InLanes {
    /// For each operation, true if its operands are exchanged.
    swaps: [bool; 6],
    /// For each mask, the bits that are wrong.
    faults: [BigUint; 3],
    /// The number of bits of the sum that an additional mask keeps.
    kept: Option<u32>,
}

impl InLanes {
    /// Returns `((a & rests) + (b & rests)) ^ ((a ^ b) & tops)`, with masks of `width` bits, as
    /// programs write it.
    fn sum(&self, a: &Number, b: &Number, width: u32) -> Number {
        let binary = |op, at: usize, left: Number, right: Number| {
            let (left, right) = if self.swaps[at] { (right, left) } else { (left, right) };
            Number::Binary(op, Box::new(left), Box::new(right))
        };
        let masked = |at, value: Number, fault: usize, lane: u32| {
            let mask = BigUint::new(vec![lane; width as usize / 32]);
            binary("&", at, value, Number::Const(mask ^ &self.faults[fault]))
        };
        let rests = |at, value: &Number| masked(at, value.clone(), at, 0x7fff_ffff);
        let sum = binary("+", 2, rests(0, a), rests(1, b));
        let sum = self.kept.map_or(sum.clone(), |bits| Number::Masked(Box::new(sum), bits));
        let difference = binary("^", 3, a.clone(), b.clone());
        binary("^", 5, sum, masked(4, difference, 2, 0x8000_0000))
    }
}

/// Generates sums of fields in lanes, with operands in any order, and masks that may be wrong in a
/// bit.
fn lanes() -> impl Strategy<Value = Number> {
    let fields = prop::sample::select(vec![(16_usize, 20_usize), (19, 21), (17, 17), (15, 16), (17, 19)]);
    let kept = prop::sample::select(vec![None, None, Some(128), Some(512), Some(2048)]);
    let fault = prop::option::of((0_usize..3, any::<u32>()));
    (fields, any::<[bool; 6]>(), any::<bool>(), kept, fault).prop_map(
        |((a, b), swaps, whole, kept, fault)| {
            let mut written = InLanes { swaps, kept, ..InLanes::default() };
            if let Some((at, bit)) = fault {
                written.faults[at] = BigUint::from(1_u8) << (bit % WIDTHS[b]);
            }
            let all = written.sum(&Number::Field(a), &Number::Field(b), WIDTHS[b]);
            if whole { Number::Masked(Box::new(all), WIDTHS[a]) } else { all }
        },
    )
}

fn number() -> impl Strategy<Value = Number> {
    leaf().prop_recursive(4, 24, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let truth = || truth(inner.clone()).prop_map(Box::new);
        let width = || prop::sample::select(WIDTHS.to_vec());
        let closed = prop::sample::select(vec!["+", "-", "*", "&", "|", "^"]);
        prop_oneof![
            4 => (closed, boxed(), boxed()).prop_map(|(op, left, right)| Number::Binary(op, left, right)),
            4 => (boxed(), width()).prop_map(|(operand, width)| Number::Masked(operand, width)),
            1 => (boxed(), amount(), width()).prop_map(|(left, by, width)| {
                Number::Masked(Box::new(Number::Binary("<<", left, Box::new(by))), width)
            }),
            2 => (boxed(), amount()).prop_map(|(left, by)| Number::Binary(">>", left, Box::new(by))),
            1 => boxed().prop_map(Number::Not),
            1 => (truth(), boxed(), boxed()).prop_map(|(cond, yes, no)| Number::Choose(cond, yes, no)),
            1 => truth().prop_map(Number::OfTruth),
        ]
    })
}

fn truth(number: impl Strategy<Value = Number> + 'static) -> impl Strategy<Value = Truth> {
    let number = number.prop_map(Box::new).boxed();
    let ops = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let compare = (ops, number.clone(), number).prop_map(|(op, left, right)| Truth::Compare(op, left, right));
    compare.prop_recursive(3, 8, 2, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (boxed(), boxed()).prop_map(|(left, right)| Truth::Both(left, right)),
            (boxed(), boxed()).prop_map(|(left, right)| Truth::Either(left, right)),
            boxed().prop_map(Truth::Not),
        ]
    })
}

/// Makes a program that reads its operands from a packet, computes one field, and sets another
/// field by a conditional jump.
fn program(target: usize, number: &Number, truth: &Truth) -> Value {
    let fields = |widths: &[u32]| -> Vec<Value> {
        widths.iter().enumerate().map(|(index, width)| json!([format!("f{index}"), width, false])).collect()
    };
    let field = |header: &str, name: &str| json!({ "type": "field", "value": [header, name] });
    let call = |op: &str, parameters: Vec<Value>| json!({ "op": op, "parameters": parameters });
    let standard = ["ingress_port", "egress_spec", "egress_port"].map(|name| json!([name, 9, false]));
    let more =
        ["instance_type", "packet_length", "parser_error", "mcast_grp", "egress_rid", "checksum_error"];
    let standard: Vec<Value> =
        standard.into_iter().chain(more.map(|name| json!([name, 32, false]))).collect();
    let mut targets = TARGETS.to_vec();
    targets.push(8);
    let header = |name: &str, id: u32, kind: &str, metadata: bool| json!({ "name": name, "id": id, "header_type": kind, "metadata": metadata });
    let primitives = vec![
        call("add_header", vec![json!({ "type": "header", "value": "out" })]),
        call("assign", vec![field("out", &format!("f{target}")), number.json()]),
        call(
            "_jump_if_zero",
            vec![expression("b2d", &Value::Null, &truth.json()), json!({ "type": "hexstr", "value": "0x4" })],
        ),
        call(
            "assign",
            vec![field("out", &format!("f{}", TARGETS.len())), json!({ "type": "hexstr", "value": "0x1" })],
        ),
        call("remove_header", vec![json!({ "type": "header", "value": "in" })]),
        call(
            "assign",
            vec![field("standard_metadata", "egress_spec"), json!({ "type": "hexstr", "value": "0x1" })],
        ),
    ];
    let flow = |name: &str, init: Value, tables: Vec<Value>| json!({ "name": name, "init_table": init, "tables": tables });
    let table = json!({ "name": "compute", "key": [], "type": "simple", "max_size": 1, "action_ids": [0],
        "actions": ["compute"], "next_tables": { "compute": null }, "base_default_next": null,
        "default_entry": { "action_id": 0, "action_const": true } });
    json!({
        "__meta__": { "version": [2, 23] },
        "header_types": [
            { "name": "in_t", "fields": fields(&WIDTHS) },
            { "name": "out_t", "fields": fields(&targets) },
            { "name": "standard_metadata", "fields": standard },
        ],
        "headers": [
            header("standard_metadata", 0, "standard_metadata", true),
            header("in", 1, "in_t", false),
            header("out", 2, "out_t", false),
        ],
        "parsers": [{ "name": "parser", "init_state": "start", "parse_states": [{ "name": "start",
            "parser_ops": [call("extract", vec![json!({ "type": "regular", "value": "in" })])],
            "transition_key": [], "transitions": [{ "type": "default" }] }] }],
        "deparsers": [{ "name": "deparser", "order": ["in", "out"] }],
        "actions": [{ "name": "compute", "id": 0, "runtime_data": [], "primitives": primitives }],
        "pipelines": [flow("ingress", json!("compute"), vec![table]), flow("egress", Value::Null, vec![])],
    })
}

/// Packs fields one after the other.
fn packed(fields: &[BigUint], widths: &[u32]) -> Vec<u8> {
    let all = fields.iter().zip(widths).fold(BigUint::ZERO, |all, (field, width)| all << *width | field);
    let bytes = all.to_bytes_be();
    let len = widths.iter().sum::<u32>() as usize / 8;
    [vec![0; len.saturating_sub(bytes.len())], bytes].concat()[..len].to_vec()
}

fn operands() -> Vec<BoxedStrategy<BigUint>> {
    WIDTHS.iter().map(|width| bits(*width).boxed()).collect()
}

/// Computes a number and a truth value from each packet's operands, and compares the results.
fn check(
    number: &Number,
    truth: &Truth,
    target: usize,
    packets: &[Vec<BigUint>],
) -> Result<(), TestCaseError> {
    let json = program(target, number, truth).to_string();
    let pipeline = match Pipeline::load_text(&json, "pkg_info { arch: \"v1model\" }") {
        Ok(pipeline) => pipeline,
        // The expression has products and shifts beyond the needs of any program.
        Err(LoadError::Unsupported { .. }) => return Err(TestCaseError::reject("refused")),
        Err(other) => return Err(TestCaseError::fail(other.to_string())),
    };
    let mut switch = Switch::new(Arc::new(pipeline));
    let mut outputs = Outputs::new();
    for fields in packets {
        outputs.clear();
        switch.process(0, &packed(fields, &WIDTHS), &mut outputs);
        let modulus = BigInt::from_biguint(Sign::Plus, BigUint::from(1_u8) << TARGETS[target]);
        let value = ((number.eval(fields) % &modulus) + &modulus) % &modulus;
        let mut expected = vec![BigUint::ZERO; TARGETS.len() + 1];
        expected[target] = value.to_biguint().unwrap();
        expected[TARGETS.len()] = u8::from(truth.eval(fields)).into();
        let widths = [TARGETS.as_slice(), &[8]].concat();
        let out: Vec<_> = outputs.iter().map(|(port, frame)| (port, frame.to_vec())).collect();
        prop_assert_eq!(out, [(1, packed(&expected, &widths))]);
    }
    Ok(())
}

#[test]
fn the_width_of_a_value_takes_no_memory_by_itself() {
    // A number as wide as this value can be would take half a gigabyte.
    let shift = Number::Const(0xffff_f000_u32.into());
    let wide = Number::Binary("<<", Box::new(Number::Field(19)), Box::new(shift));
    let sum = InLanes::default().sum(&wide, &wide, 2048);
    let json = program(TARGETS.len() - 1, &sum, &Truth::always()).to_string();
    let load = || assert!(Pipeline::load_text(&json, "pkg_info { arch: \"v1model\" }").is_ok());
    let allocated = allocation_counter::measure(load);
    assert!(allocated.bytes_max < 64 << 20, "{allocated:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn results_are_those_of_unlimited_arithmetic(
        number in number(),
        truth in truth(number()),
        target in 0..TARGETS.len(),
        packets in prop::collection::vec(operands(), 1..4),
    ) {
        check(&number, &truth, target, &packets)?;
    }

    #[test]
    fn lanes_are_added_only_where_that_is_what_is_written(
        number in lanes(),
        packets in prop::collection::vec(operands(), 1..4),
    ) {
        check(&number, &Truth::always(), TARGETS.len() - 1, &packets)?;
    }
}
