//! Random entries, groups and configurations for all objects of a P4Info.

use std::collections::BTreeSet;

use num_bigint::BigUint;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_p4runtime::p4::config::v1 as config;
use tributary_p4runtime::p4::config::v1::match_field::{Match, MatchType};
use tributary_p4runtime::p4::v1::action::Param;
use tributary_p4runtime::p4::v1::action_profile_group::Member;
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use tributary_p4runtime::p4::v1::replica::PortKind;
use tributary_p4runtime::p4::v1::update::Type as Update;
use tributary_p4runtime::p4::v1::{self as message, FieldMatch, MeterConfig, TableAction, table_action};

use super::program::{FieldName, Program, field_name, list, number, ones};
use super::values::{Values, any, random_bits};

/// The maximum number of entries in a table.
const ENTRIES: usize = 32;
/// The ids of the members of an action profile.
const MEMBERS: std::ops::RangeInclusive<u32> = 1..=4;
/// The ids of the groups of an action selector, the multicast groups, and the clone sessions.
const GROUPS: std::ops::RangeInclusive<u32> = 1..=4;
/// The timeout in nanoseconds after which idle entries are reported.
const IDLE: i64 = 1_000_000;

/// Generates entities. An equal seed gives equal entities.
pub(crate) struct Entities<'a> {
    program: &'a Program,
    values: &'a Values,
    random: ChaCha8Rng,
    updates: Vec<message::Update>,
}

/// Returns all updates for a program.
pub(crate) fn updates(program: &Program, values: &Values, seed: u64) -> Vec<message::Update> {
    let random = ChaCha8Rng::seed_from_u64(seed);
    let mut entities = Entities { program, values, random, updates: Vec::new() };
    let info = program.info.message();
    entities.replication();
    info.action_profiles.iter().for_each(|profile| entities.profile(profile));
    info.tables.iter().for_each(|table| entities.table(table));
    info.meters.iter().for_each(|meter| entities.meter(meter));
    info.digests.iter().for_each(|digest| entities.digest(digest));
    entities.updates
}

pub(crate) fn id(preamble: Option<&config::Preamble>) -> u32 {
    preamble.map_or(0, |preamble| preamble.id)
}

impl Entities<'_> {
    fn add(&mut self, kind: Update, entity: Kind) {
        let entity = Some(message::Entity { entity: Some(entity) });
        self.updates.push(message::Update { r#type: kind.into(), entity });
    }

    fn replication(&mut self) {
        for id in GROUPS {
            let group = message::MulticastGroupEntry {
                multicast_group_id: id,
                replicas: self.replicas(),
                metadata: Vec::new(),
            };
            self.replicate(Replication::MulticastGroupEntry(group));
            let session = message::CloneSessionEntry {
                session_id: id,
                replicas: self.replicas(),
                ..Default::default()
            };
            self.replicate(Replication::CloneSessionEntry(session));
        }
    }

    fn replicate(&mut self, what: Replication) {
        let entry = message::PacketReplicationEngineEntry { r#type: Some(what) };
        self.add(Update::Insert, Kind::PacketReplicationEngineEntry(entry));
    }

    fn replicas(&mut self) -> Vec<message::Replica> {
        let random = &mut self.random;
        let count = random.random_range(1..4);
        let all: BTreeSet<_> =
            (0..count).map(|_| (random.random_range(1..6), random.random_range(0..4))).collect();
        let replica = |(port, instance)| message::Replica {
            port_kind: Some(PortKind::EgressPort(port)),
            instance,
            backup_replicas: Vec::new(),
        };
        all.into_iter().map(replica).collect()
    }

    fn profile(&mut self, profile: &config::ActionProfile) {
        let action_profile_id = id(profile.preamble.as_ref());
        let info = self.program.info.message();
        let of_profile = |table: &&config::Table| table.implementation_id == action_profile_id;
        let table = info.tables.iter().find(of_profile).unwrap();
        for member_id in MEMBERS {
            let action = Some(self.call(table, false, member_id as usize));
            let member = message::ActionProfileMember { action_profile_id, member_id, action };
            self.add(Update::Insert, Kind::ActionProfileMember(member));
        }
        if !profile.with_selector {
            return;
        }
        for group_id in GROUPS {
            let mut members: Vec<u32> = MEMBERS.collect();
            members.shuffle(&mut self.random);
            // The choice of a member by a hash is not specified, and the switches differ in it if
            // members have weights.
            members.truncate(if group_id == 1 { 1 } else { self.random.random_range(2..=3) });
            let member = |member_id: u32| Member {
                member_id,
                weight: if group_id == 1 { 2 } else { 1 },
                watch_kind: None,
            };
            let members = members.into_iter().map(member).collect();
            let group = message::ActionProfileGroup { action_profile_id, group_id, members, max_size: 6 };
            self.add(Update::Insert, Kind::ActionProfileGroup(group));
        }
    }

    fn table(&mut self, table: &config::Table) {
        let info = self.program.info.message();
        let table_id = id(table.preamble.as_ref());
        if table.const_default_action_id == 0 && table.implementation_id == 0 && self.random.random_bool(0.5)
        {
            let which = self.random.random_range(0..8);
            let action =
                Some(TableAction { r#type: Some(table_action::Type::Action(self.call(table, true, which))) });
            let default =
                message::TableEntry { table_id, action, is_default_action: true, ..Default::default() };
            self.add(Update::Modify, Kind::TableEntry(default));
        }
        // BMv2 accepts no other entries in a table with entries of the program.
        if table.is_const_table || table.has_initial_entries || table.match_fields.is_empty() {
            return;
        }
        let of_table = |meter: &config::DirectMeter| meter.direct_table_id == table_id;
        let metered = info.direct_meters.iter().find(|meter| of_table(meter));
        let ordered = table
            .match_fields
            .iter()
            .any(|field| matches!(kind(field), MatchType::Ternary | MatchType::Range | MatchType::Optional));
        let most = (table.size.max(1) as usize).min(ENTRIES);
        let bits = self.key_bits(table);
        // Some keys must have no entry.
        let most = if bits < 6 { most.min(1 << (bits - 1)) } else { most };
        let mut keys = BTreeSet::new();
        for _ in 0..4 * most {
            let key = self.key(table);
            if keys.len() == most {
                break;
            }
            if key.is_empty() || !keys.insert(format!("{key:?}")) {
                continue;
            }
            let action = self.action(table, keys.len());
            let mut entry = message::TableEntry { table_id, r#match: key, action, ..Default::default() };
            if ordered {
                // The priorities differ, because the choice between two entries of one priority is
                // not specified.
                entry.priority = 100 + (keys.len() as i32 * 7) % 37;
            }
            entry.meter_config = metered.map(|meter| self.rates(meter.spec.as_ref()));
            if table.idle_timeout_behavior != 0 && self.random.random_bool(0.7) {
                entry.idle_timeout_ns = IDLE;
            }
            self.add(Update::Insert, Kind::TableEntry(entry));
        }
    }

    /// Returns the number of key bits that distinguish entries.
    fn key_bits(&self, table: &config::Table) -> u64 {
        let keys = self.json_table(table).map(|json| list(&json["key"])).unwrap_or_default();
        let fields = table.match_fields.iter().zip(keys);
        let bits = |(field, key): (&config::MatchField, &serde_json::Value)| {
            number(&key["mask"], 0).map_or(field.bitwidth as u64, |mask| mask.count_ones())
        };
        fields.map(bits).sum()
    }

    fn json_table(&self, table: &config::Table) -> Option<&serde_json::Value> {
        let name = &table.preamble.as_ref()?.name;
        self.program.tables().find(|json| json["name"] == name.as_str())
    }

    fn action(&mut self, table: &config::Table, number: usize) -> Option<TableAction> {
        let info = self.program.info.message();
        let profile = info.action_profiles.iter().find(|profile| {
            table.implementation_id != 0 && id(profile.preamble.as_ref()) == table.implementation_id
        });
        let action = match profile {
            None => table_action::Type::Action(self.call(table, false, number)),
            Some(profile) if profile.with_selector && self.random.random_bool(0.7) => {
                table_action::Type::ActionProfileGroupId(self.random.random_range(GROUPS))
            }
            Some(_) => table_action::Type::ActionProfileMemberId(self.random.random_range(MEMBERS)),
        };
        Some(TableAction { r#type: Some(action) })
    }

    /// Makes a call of one of a table's actions, in turn.
    fn call(&mut self, table: &config::Table, default: bool, number: usize) -> message::Action {
        use config::action_ref::Scope;
        let other = if default { Scope::TableOnly } else { Scope::DefaultOnly };
        let allowed: Vec<_> = table.action_refs.iter().filter(|action| action.scope() != other).collect();
        let action_id = allowed[number % allowed.len()].id;
        let info = self.program.info.message();
        let action = info.actions.iter().find(|action| id(action.preamble.as_ref()) == action_id).unwrap();
        let params = action
            .params
            .iter()
            .map(|parameter| Param { param_id: parameter.id, value: self.argument(parameter) })
            .collect();
        message::Action { action_id, params }
    }

    fn argument(&mut self, parameter: &config::action::Param) -> Vec<u8> {
        let random = &mut self.random;
        let name = parameter.name.as_str();
        let value: BigUint = if name.contains("port") {
            // The last port means drop.
            (*[1u16, 2, 3, 4, 5, 1, 2, 3, 4, 511].choose(random).unwrap()).into()
        } else if name.contains("group") || name.contains("session") {
            random.random_range(1u8..6).into()
        } else if random.random_bool(0.5) {
            any(parameter.bitwidth as usize, random)
        } else {
            random_bits(parameter.bitwidth as usize, random)
        };
        value.to_bytes_be()
    }

    fn key(&mut self, table: &config::Table) -> Vec<FieldMatch> {
        let target = |key: &serde_json::Value| {
            // Bits outside of a key's mask never match, although BMv2 takes them for zeros.
            (field_name(&key["target"]), number(&key["mask"], 0))
        };
        let targets: Vec<_> = self
            .json_table(table)
            .map(|json| list(&json["key"]).iter().map(target).collect())
            .unwrap_or_default();
        let fields = table.match_fields.iter().zip(targets);
        fields.filter_map(|(field, (target, mask))| self.field(field, &target, mask.as_ref())).collect()
    }

    /// Returns the match of a field; `None` if the field matches every value.
    fn field(
        &mut self,
        field: &config::MatchField,
        target: &FieldName,
        masked: Option<&BigUint>,
    ) -> Option<FieldMatch> {
        let bits = field.bitwidth as usize;
        let (values, random) = (self.values, &mut self.random);
        let value = values.choose(target, bits, random) & masked.cloned().unwrap_or_else(|| ones(bits));
        let matched = match kind(field) {
            MatchType::Lpm => {
                let prefix = *[bits, random.random_range(0..=bits), bits - bits / 4].choose(random).unwrap();
                let value = value & (ones(bits) ^ ones(bits - prefix));
                let lpm = Lpm { value: value.to_bytes_be(), prefix_len: prefix as i32 };
                (prefix > 0).then_some(FieldMatchType::Lpm(lpm))
            }
            MatchType::Ternary => {
                let mask = mask(bits, random);
                let value = (value & &mask).to_bytes_be();
                let all = mask == BigUint::ZERO;
                (!all).then(|| FieldMatchType::Ternary(Ternary { value, mask: mask.to_bytes_be() }))
            }
            MatchType::Range => {
                let other = if random.random_bool(0.7) {
                    (&value + random.random_range(0u8..3)).min(ones(bits))
                } else {
                    values.choose(target, bits, random)
                };
                let (low, high) = if value < other { (value, other) } else { (other, value) };
                // BMv2's P4Runtime accepts any number of bytes of ones as the end of the field's
                // range.
                let ends = (1..=bits.div_ceil(8)).any(|bytes| high == ones(bytes * 8)) || high == ones(bits);
                let all = low == BigUint::ZERO && ends;
                let range = Range { low: low.to_bytes_be(), high: high.to_bytes_be() };
                (!all).then_some(FieldMatchType::Range(range))
            }
            MatchType::Optional => {
                let optional = Optional { value: value.to_bytes_be() };
                random.random_bool(0.6).then_some(FieldMatchType::Optional(optional))
            }
            _ => Some(FieldMatchType::Exact(Exact { value: value.to_bytes_be() })),
        };
        matched.map(|matched| FieldMatch { field_id: field.id, field_match_type: Some(matched) })
    }

    fn meter(&mut self, meter: &config::Meter) {
        let meter_id = id(meter.preamble.as_ref());
        for index in 0..meter.size {
            // A meter without a configuration marks all packets green.
            if index % 4 != 3 {
                let config = Some(self.rates(meter.spec.as_ref()));
                let index = Some(message::Index { index });
                let entry = message::MeterEntry { meter_id, index, config, counter_data: None };
                self.add(Update::Modify, Kind::MeterEntry(entry));
            }
        }
    }

    /// Returns rates of zero tokens per second, so that colours depend only on the bursts, and on
    /// no clock.
    fn rates(&mut self, spec: Option<&config::MeterSpec>) -> MeterConfig {
        let bytes = spec.is_some_and(|spec| spec.unit() == config::meter_spec::Unit::Bytes);
        let scale = if bytes { 50 } else { 1 };
        let cburst = self.random.random_range(1..200) * scale;
        let pburst = cburst + self.random.random_range(1..200) * scale;
        MeterConfig { cir: 0, cburst, pir: 0, pburst, eburst: 0 }
    }

    fn digest(&mut self, digest: &config::Digest) {
        // Each list has one message, and each message is sent only once, because the test
        // acknowledges none.
        let config = message::digest_entry::Config {
            max_timeout_ns: 0,
            max_list_size: 1,
            ack_timeout_ns: 3_600_000_000_000,
        };
        let entry = message::DigestEntry { digest_id: id(digest.preamble.as_ref()), config: Some(config) };
        self.add(Update::Insert, Kind::DigestEntry(entry));
    }
}

fn kind(field: &config::MatchField) -> MatchType {
    match field.r#match {
        Some(Match::MatchType(kind)) => MatchType::try_from(kind).unwrap(),
        _ => MatchType::Unspecified,
    }
}

fn mask(bits: usize, random: &mut impl Rng) -> BigUint {
    match random.random_range(0..5) {
        0 => BigUint::ZERO,
        1 => random_bits(bits, random),
        2 => ones(bits) ^ ones(bits / 2),
        _ => ones(bits),
    }
}
