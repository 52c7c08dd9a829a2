//! Tests that the constants of `wire` are equal to the constants in the P4 source.

use std::collections::BTreeMap;

use tributary_wire::constants as wire;

const P4_SOURCE: &str = include_str!("../../../../p4/include/constants.p4");

/// Reads the `const bit<N> NAME = VALUE;` lines of the P4 source.
fn p4_constants() -> BTreeMap<&'static str, u64> {
    P4_SOURCE
        .lines()
        .filter_map(|line| {
            let definition = line.trim().strip_prefix("const ")?.split_once(';')?.0;
            let (declaration, value) = definition.split_once('=')?;
            let name = declaration.split_whitespace().next_back()?;
            let value = value.trim();
            let parsed = match value.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => value.parse(),
            };
            parsed.ok().map(|number| (name, number))
        })
        .collect()
}

#[test]
fn every_constant_has_the_value_it_has_in_p4() {
    let ours: &[(&str, u64)] = &[
        ("INA_UDP_PORT", wire::INA_UDP_PORT.into()),
        ("INA_VERSION", wire::INA_VERSION.into()),
        ("KIND_GRADIENT", wire::KIND_GRADIENT.into()),
        ("KIND_RESULT", wire::KIND_RESULT.into()),
        ("FLAG_MAX", wire::FLAG_MAX.into()),
        ("FLAG_RETRANSMIT", wire::FLAG_RETRANSMIT.into()),
        ("FLAG_PROBE", wire::FLAG_PROBE.into()),
        ("RANK_ALL", wire::RANK_ALL.into()),
        ("NO_JOB", wire::NO_JOB.into()),
        ("NO_NODE", wire::NO_NODE.into()),
        ("VALUES_PER_BLOCK", wire::VALUES_PER_BLOCK.into()),
        ("MAX_BLOCKS", wire::MAX_BLOCKS.into()),
        ("CPU_PORT", wire::CPU_PORT.into()),
        ("MAX_HOPS", wire::MAX_HOPS.into()),
        ("INA_HEADER_BYTES", wire::INA_HEADER_BYTES as u64),
        ("HOP_BYTES", wire::HOP_BYTES as u64),
    ];
    let p4 = p4_constants();
    for (name, value) in ours {
        assert_eq!(p4.get(name), Some(value), "{name} in p4/include/constants.p4");
    }
}
