//! A training process's side of its host's agent.
