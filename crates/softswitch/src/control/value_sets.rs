//! The control plane's access to value sets.

use super::{FieldMatch, KeyMatch};
use crate::check::ValueSetIds;
use crate::error::ControlError;
use crate::pipeline::Pipeline;
use crate::program::Pattern;
use crate::switch::Switch;

impl Switch {
    /// Returns the members of a value set.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn value_set(&self, id: u32) -> Result<Vec<Vec<FieldMatch>>, ControlError> {
        let ids = lookup(&self.pipeline, id)?;
        let program = &self.pipeline.program.value_sets[ids.index];
        let shown = |member: &Pattern| {
            let matches = member.matches(&program.fields).into_iter().zip(&ids.fields);
            matches.filter_map(|(key, id)| key.map(|key| FieldMatch { field_id: *id, key })).collect()
        };
        Ok(self.state.value_sets[ids.index].members().iter().map(shown).collect())
    }

    /// Replaces the members of a value set.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `AlreadyExists` (a member twice), `Full`.
    pub fn set_value_set(&mut self, id: u32, members: &[Vec<FieldMatch>]) -> Result<(), ControlError> {
        let ids = lookup(&self.pipeline, id)?;
        let program = &self.pipeline.program.value_sets[ids.index];
        let place = format!("value set {}", program.name);
        if members.len() > program.size {
            return Err(ControlError::Full { table: format!("of {place}"), size: program.size });
        }
        let mut patterns: Vec<Pattern> = Vec::new();
        for member in members {
            let invalid = |problem| ControlError::InvalidArgument { place: place.clone(), problem };
            let mut matches: Vec<Option<&KeyMatch>> = vec![None; ids.fields.len()];
            for field in member {
                let at = ids.fields.iter().position(|id| *id == field.field_id);
                let at = at.ok_or_else(|| invalid(format!("it has no match field {}", field.field_id)))?;
                if matches[at].replace(&field.key).is_some() {
                    return Err(invalid(format!("match field {} is there twice", field.field_id)));
                }
            }
            let pattern = program.pattern(&matches).map_err(invalid)?;
            if patterns.contains(&pattern) {
                return Err(ControlError::AlreadyExists(format!("a member of {place}")));
            }
            patterns.push(pattern);
        }
        self.state.value_sets[ids.index].set_members(patterns);
        Ok(())
    }
}

fn lookup(pipeline: &Pipeline, id: u32) -> Result<&ValueSetIds, ControlError> {
    pipeline.directory.value_sets.get(&id).ok_or(ControlError::UnknownId { what: "value set", id })
}
