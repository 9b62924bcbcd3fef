//! The protocols that need an argument about memory order, without statics, statistics or data.
//!
//! Each file is written against `crate::atomic` alone and is compiled twice: here, and in `tests/models` over loom. Every
//! ordering and every step that an argument rests on has a name (`site`, `step`, `fence_at`), and for each name there is a model that
//! fails when it is weakened or left out.

pub mod attendance;
pub mod bandwidth;
pub mod call;
pub mod chain;
pub mod count;
pub mod home;
pub mod idle;
pub mod inbox;
pub mod list;
pub mod mask;
pub mod membership;
pub mod offer;
pub mod period;
pub mod pi;
pub mod preempted;
pub mod presence;
pub mod quota;
pub mod readers;
pub mod saved;
pub mod sequence;
pub mod share;
pub mod sleep;
pub mod spin;
pub mod visit;
