//! Definitions of tables: Rust types that write entries to P4Runtime, and read them back.
//!
//! The names of the P4 program stand only in the definitions: the name of a field is the name of the Rust field. The
//! width of a field can differ between targets. It comes from the P4Info, which also checks each value.

use std::net::Ipv4Addr;

use tributary_p4runtime::entry::{ActionCall, Match, TableEntry};
use tributary_wire::constants::NO_NODE;
use tributary_wire::{JobId, MacAddr, NodeId, Rank};

/// The names of a table in P4Info.
#[derive(Debug)]
pub(crate) struct TableSchema {
    pub(crate) name: &'static str,
    /// The names of the match fields, which are all exact. Empty if the table has only a default action.
    pub(crate) key: &'static [&'static str],
    pub(crate) actions: &'static [ActionSchema],
}

/// The names of an action in P4Info.
#[derive(Debug)]
pub(crate) struct ActionSchema {
    pub(crate) name: &'static str,
    pub(crate) parameters: &'static [&'static str],
}

/// The value of a match field or of an action's parameter.
pub(crate) trait P4Value: Copy {
    fn to_number(self) -> u128;

    /// Returns the value of a number; `None` if the controller never writes that number.
    fn from_number(number: u128) -> Option<Self>;
}

/// The match fields of a table, or the parameters of an action.
pub(crate) trait Fields: Copy {
    /// The name of the table or action.
    const NAME: &'static str;
    /// The names of the fields.
    const FIELDS: &'static [&'static str];

    fn to_numbers(&self) -> impl Iterator<Item = (&'static str, u128)>;

    /// Creates the fields from their numbers.
    /// Returns `None` if a number is missing, or if the controller never writes it.
    fn from_numbers(number: impl Fn(&str) -> Option<u128>) -> Option<Self>;
}

/// The key of a table's entries. Each table has its own type.
pub(crate) trait TableKey: Fields {
    type Action: TableAction;

    const SCHEMA: TableSchema =
        TableSchema { name: Self::NAME, key: Self::FIELDS, actions: <Self::Action as TableAction>::SCHEMAS };

    /// Returns an entry with this key, without an action.
    fn to_entry(&self) -> TableEntry {
        let is_default = Self::FIELDS.is_empty();
        let entry = if is_default { TableEntry::default_of(Self::NAME) } else { TableEntry::new(Self::NAME) };
        self.to_numbers().fold(entry, |entry, (field, number)| entry.exact(field, number))
    }

    /// Returns the key of an entry; `None` if the entry is in another table or the controller never writes
    /// its key.
    fn from_entry(entry: &TableEntry) -> Option<Self> {
        let number = |field: &str| match entry.key.get(field) {
            Some(Match::Exact(number)) => Some(*number),
            _ => None,
        };
        (entry.table == Self::NAME).then(|| Self::from_numbers(number)).flatten()
    }
}

/// The possible actions of a table's entries.
pub(crate) trait TableAction: Copy {
    const SCHEMAS: &'static [ActionSchema];

    fn to_call(&self) -> ActionCall;

    /// Returns the action of a call; `None` if the controller never writes the call.
    fn from_call(call: &ActionCall) -> Option<Self>;
}

/// The only action of a table.
impl<F: Fields> TableAction for F {
    const SCHEMAS: &'static [ActionSchema] = &[schema_of::<F>()];

    fn to_call(&self) -> ActionCall {
        self.to_numbers().fold(ActionCall::new(F::NAME), |call, (name, number)| call.with(name, number))
    }

    fn from_call(call: &ActionCall) -> Option<Self> {
        let number = |parameter: &str| call.parameters.get(parameter).copied();
        (call.name == F::NAME).then(|| F::from_numbers(number)).flatten()
    }
}

/// Defines keys, as in `Key = "table" { field: u16 } => Action;`, and actions, as in
/// `Action = "action" { parameter: u16 }`.
macro_rules! definitions {
    ($(
        $(#[$doc:meta])*
        $Name:ident = $name:literal { $($(#[$field_doc:meta])* $field:ident: $Value:ty),* $(,)? }
        $(=> $Action:ty;)?
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $Name {
            $($(#[$field_doc])* pub(crate) $field: $Value),*
        }

        impl $crate::tables::definition::Fields for $Name {
            const NAME: &'static str = $name;
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn to_numbers(&self) -> impl Iterator<Item = (&'static str, u128)> {
                [$((stringify!($field), $crate::tables::definition::P4Value::to_number(self.$field))),*].into_iter()
            }

            fn from_numbers(_number: impl Fn(&str) -> Option<u128>) -> Option<Self> {
                Some(Self {
                    $($field: $crate::tables::definition::P4Value::from_number(_number(stringify!($field))?)?),*
                })
            }
        }

        $(impl $crate::tables::definition::TableKey for $Name {
            type Action = $Action;
        })?
    )+};
}

/// Defines the actions of a table that has several. A variant and its parameters have the same name.
macro_rules! actions {
    ($(#[$doc:meta])* $Action:ident { $($Parameters:ident),+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $Action {
            $($Parameters($Parameters)),+
        }

        $(impl From<$Parameters> for $Action {
            fn from(parameters: $Parameters) -> Self {
                Self::$Parameters(parameters)
            }
        })+

        impl $crate::tables::definition::TableAction for $Action {
            const SCHEMAS: &'static [$crate::tables::definition::ActionSchema] =
                &[$($crate::tables::definition::schema_of::<$Parameters>()),+];

            fn to_call(&self) -> tributary_p4runtime::entry::ActionCall {
                match self {
                    $(Self::$Parameters(parameters) => parameters.to_call()),+
                }
            }

            fn from_call(call: &tributary_p4runtime::entry::ActionCall) -> Option<Self> {
                let none = None;
                $(let none = none.or_else(|| $Parameters::from_call(call).map(Self::from));)+
                none
            }
        }
    };
}

pub(super) use {actions, definitions};

/// Returns the names of an action.
pub(super) const fn schema_of<F: Fields>() -> ActionSchema {
    ActionSchema { name: F::NAME, parameters: F::FIELDS }
}

macro_rules! values {
    ($($Value:ty: $value:ident => $to:expr, $number:ident => $from:expr;)+) => {
        $(impl P4Value for $Value {
            fn to_number(self) -> u128 {
                let $value = self;
                $to
            }

            fn from_number($number: u128) -> Option<Self> {
                $from
            }
        })+
    };
}

values! {
    u8: value => value.into(), number => number.try_into().ok();
    u16: value => value.into(), number => number.try_into().ok();
    u32: value => value.into(), number => number.try_into().ok();
    u64: value => value.into(), number => number.try_into().ok();
    bool: flag => flag.into(), number => (number <= 1).then_some(number == 1);
    JobId: job => job.get().into(), number => u16::from_number(number).and_then(Self::new);
    Option<NodeId>: node => node.map_or(NO_NODE, NodeId::get).into(),
        number => u16::from_number(number).map(NodeId::new);
    Rank: rank => rank.get().into(), number => u16::from_number(number).map(Self::new);
    Ipv4Addr: address => u32::from(address).into(), number => u32::from_number(number).map(Self::from);
    MacAddr: address => address.octets().iter().fold(0, |number, byte| number << 8 | u128::from(*byte)),
        number => {
            let [padding @ .., a, b, c, d, e, f] = number.to_be_bytes();
            (padding == [0; 10]).then(|| Self::new(a, b, c, d, e, f))
        };
}
