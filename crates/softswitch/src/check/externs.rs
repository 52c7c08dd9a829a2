//! Checks of counters, meters, registers, value sets, digests and action profiles.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::config::v1::action_profile::SelectorSizeSemantics;
use tributary_p4runtime::p4::config::v1::match_field::Match;
use tributary_p4runtime::p4::config::v1::{Meter, MeterSpec, Preamble, meter_spec};
use tributary_p4runtime::p4info::MatchType;

use super::{Directory, ProfileIds, SizeSemantics, ValueSetIds, only_in, same};
use crate::error::LoadError;
use crate::json::{self, Document};
use crate::program::{MAX_BITS, MatchKind, MeterKind, Program};

pub(super) fn check(
    document: &Document,
    program: &mut Program,
    info: &P4Info,
    directory: &mut Directory,
) -> Result<(), LoadError> {
    check_counters(document, info, directory)?;
    check_meters(document, program, info, directory)?;
    check_registers(document, info, directory)?;
    check_digests(program, info, directory)?;
    check_value_sets(program, info, directory)?;
    check_profiles(program, info, directory)
}

fn check_counters(document: &Document, info: &P4Info, directory: &mut Directory) -> Result<(), LoadError> {
    let indirect = || document.counter_arrays.iter().filter(|counter| !counter.is_direct);
    for counter in info.counters() {
        let name = &counter.name.full;
        let found = indirect().enumerate().find(|(_, known)| known.name == *name);
        let (index, known) = found.ok_or_else(|| only_in("P4Info", "counter", name))?;
        same(&format!("the size of counter {name}"), &known.size.unwrap_or(0), &counter.size)?;
        directory.counters.insert(counter.name.id, index);
    }
    check_names("counter", indirect().map(|c| c.name.as_str()), |name| info.counter(name).is_some())
}

fn check_registers(document: &Document, info: &P4Info, directory: &mut Directory) -> Result<(), LoadError> {
    let known = |name: &str| document.register_arrays.iter().enumerate().find(|(_, one)| one.name == name);
    for register in info.registers() {
        let name = &register.name.full;
        let (index, known): (usize, &json::RegisterArray) =
            known(name).ok_or_else(|| only_in("P4Info", "register", name))?;
        same(&format!("the size of register {name}"), &known.size, &register.size)?;
        directory.registers.insert(register.name.id, index);
    }
    check_names("register", document.register_arrays.iter().map(|r| r.name.as_str()), |name| {
        info.register(name).is_some()
    })
}

fn check_meters(
    document: &Document,
    program: &mut Program,
    info: &P4Info,
    directory: &mut Directory,
) -> Result<(), LoadError> {
    let indirect = || document.meter_arrays.iter().filter(|meter| !meter.is_direct);
    let meters = &info.message().meters;
    for meter in meters {
        let (id, name) = id_and_name(meter.preamble.as_ref());
        let found = indirect().enumerate().find(|(_, known)| known.name == name);
        let (index, known) = found.ok_or_else(|| only_in("P4Info", "meter", name))?;
        let size = u64::try_from(meter.size).unwrap_or(0);
        same(&format!("the size of meter {name}"), &known.size, &size)?;
        directory.meters.insert(id, index);
        // The compiled program has its meters in the order of the JSON, so the index is valid for
        // both.
        if let Some(program) = program.meters.get_mut(index) {
            program.kind = meter_kind(meter.spec.as_ref());
        }
    }
    let named = |meter: &Meter, name: &str| id_and_name(meter.preamble.as_ref()).1 == name;
    check_names("meter", indirect().map(|meter| meter.name.as_str()), |name| {
        meters.iter().any(|meter| named(meter, name))
    })
}

/// Returns the kind of a meter, by the P4Info.
pub(super) fn meter_kind(spec: Option<&MeterSpec>) -> MeterKind {
    match spec.map(MeterSpec::r#type).unwrap_or_default() {
        meter_spec::Type::TwoRateThreeColor => MeterKind::TwoRates,
        meter_spec::Type::SingleRateThreeColor => MeterKind::SingleRate,
        meter_spec::Type::SingleRateTwoColor => MeterKind::TwoColours,
    }
}

/// Finds the fields of value sets in the P4Info, because the JSON does not contain them.
fn check_value_sets(
    program: &mut Program,
    info: &P4Info,
    directory: &mut Directory,
) -> Result<(), LoadError> {
    let value_sets = &info.message().value_sets;
    for set in value_sets {
        let (id, name) = id_and_name(set.preamble.as_ref());
        let index = program.value_sets.iter().position(|known| known.name == name);
        let index = index.ok_or_else(|| only_in("P4Info", "value set", name))?;
        let known = &mut program.value_sets[index];
        let place = format!("value set {name}");
        let mut all = 0_u32;
        for field in &set.r#match {
            let bits = u32::try_from(field.bitwidth).ok().filter(|bits| (1..=MAX_BITS).contains(bits));
            let unsupported = |what: String| LoadError::Unsupported { place: place.clone(), what };
            let bits = bits.ok_or_else(|| unsupported(format!("a field of {} bits", field.bitwidth)))?;
            let kind = match field.r#match {
                Some(Match::MatchType(kind)) => MatchType::try_from(kind).unwrap_or(MatchType::Unspecified),
                _ => MatchType::Unspecified,
            };
            let kind = match kind {
                MatchType::Exact => MatchKind::Exact,
                MatchType::Lpm => MatchKind::Lpm,
                MatchType::Ternary => MatchKind::Ternary,
                MatchType::Range => MatchKind::Range,
                MatchType::Optional => MatchKind::Optional,
                MatchType::Unspecified => {
                    return Err(unsupported("a field of an architecture's own kind".to_owned()));
                }
            };
            all += bits.next_multiple_of(8);
            if all > MAX_BITS {
                return Err(unsupported(format!("a key of more than {MAX_BITS} bits")));
            }
            if kind == MatchKind::Range && bits > 64 {
                return Err(unsupported(format!("a range of {bits} bits")));
            }
            known.add_field(field.name.clone(), bits, kind);
        }
        let fields = set.r#match.iter().map(|field| field.id).collect();
        directory.value_sets.insert(id, ValueSetIds { index, fields });
    }
    check_names("value set", program.value_sets.iter().map(|set| set.name.as_str()), |name| {
        value_sets.iter().any(|set| id_and_name(set.preamble.as_ref()).1 == name)
    })
}

fn check_digests(program: &Program, info: &P4Info, directory: &mut Directory) -> Result<(), LoadError> {
    let names = || info.message().digests.iter().map(|digest| id_and_name(digest.preamble.as_ref()));
    // For a digest without a struct, p4c makes up a different name in each file. The order of such
    // digests is the same.
    let known = |name: &str| names().any(|(_, known)| known == name);
    let mut nameless = (0..program.digests.len()).filter(|at| !known(&program.digests[*at].name));
    for (id, name) in names() {
        let named = program.digests.iter().position(|digest| digest.name == name);
        let index = named.or_else(|| nameless.next()).ok_or_else(|| only_in("P4Info", "digest", name))?;
        directory.digests.insert(id, index);
    }
    match nameless.next() {
        Some(at) => Err(only_in("JSON", "digest", &program.digests[at].name)),
        None => Ok(()),
    }
}

fn check_profiles(program: &Program, info: &P4Info, directory: &mut Directory) -> Result<(), LoadError> {
    let profiles = &info.message().action_profiles;
    for profile in profiles {
        let (id, name) = id_and_name(profile.preamble.as_ref());
        // The JSON leaves out a profile to which no table refers.
        let Some(index) = program.profiles.iter().position(|known| known.name == name) else { continue };
        let known = &program.profiles[index];
        let selects = known.selector.is_some();
        same(&format!("whether action profile {name} selects"), &selects, &profile.with_selector)?;
        let table = |at: &usize| {
            let id = directory.tables.iter().find(|(_, ids)| ids.index == *at).map(|(id, _)| *id);
            id.ok_or_else(|| only_in("JSON", "table", &program.tables[*at].name))
        };
        let ids = ProfileIds {
            name: name.to_owned(),
            index,
            size: u64::try_from(profile.size).unwrap_or(0),
            max_group_size: u64::try_from(profile.max_group_size).unwrap_or(0),
            counts: match &profile.selector_size_semantics {
                Some(SelectorSizeSemantics::SumOfMembers(members)) => SizeSemantics::Members {
                    max_weight: u32::try_from(members.max_member_weight).unwrap_or(0),
                },
                _ => SizeSemantics::Weights,
            },
            with_selector: profile.with_selector,
            tables: known.tables.iter().map(table).collect::<Result<_, _>>()?,
        };
        directory.profiles.insert(id, ids);
    }
    check_names("action profile", program.profiles.iter().map(|profile| profile.name.as_str()), |name| {
        profiles.iter().any(|profile| id_and_name(profile.preamble.as_ref()).1 == name)
    })
}

fn id_and_name(preamble: Option<&Preamble>) -> (u32, &str) {
    preamble.map_or((0, ""), |preamble| (preamble.id, preamble.name.as_str()))
}

/// Checks that the P4Info has each of `names`, which come from the JSON.
fn check_names<'a>(
    kind: &str,
    mut names: impl Iterator<Item = &'a str>,
    known: impl Fn(&str) -> bool,
) -> Result<(), LoadError> {
    match names.find(|name| !known(name)) {
        Some(name) => Err(only_in("JSON", kind, name)),
        None => Ok(()),
    }
}
