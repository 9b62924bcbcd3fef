//! Tasks with deadlines go before all others, the earliest deadline first (SCHED_DEADLINE; sched(7), Documentation/scheduler/sched-deadline.rst).
//!
//! * `parameters` what a program asks for: a run time in each period, by a deadline after the period's begin
//! * `admission`  who may have that: the sum of what is asked for is bounded
//! * `entity`     what a task has left of its run time, and until when it is to have it
//! * `line`       those of one CPU that wait for it, or for their next period
//! * `reclaim`    what part of its run time a task pays that may use what others leave
//! * `slot`       how a task has an entity: most have none
//!
//! Each task is a constant bandwidth server (Abeni and Buttazzo, "Integrating Multimedia Applications in Hard Real-Time Systems", 1998): it has a budget of
//! run time and a deadline. Who has used up the budget waits for the next period (it is *throttled*) and then has a new budget and a later
//! deadline. So who runs for longer than it has said makes none but itself late.
//!
//! The order of a queue knows them as the rank above all priorities (`realtime::Rank`): where they run and when they move is told in `runqueue::realtime`.
//! A CPU looks at budgets and periods when its timer says so (`runqueue::deadline`).

mod admission;
mod entity;
mod line;
mod parameters;
mod reclaim;
mod slot;

pub use admission::{Limits, allows_bound, has_bound, may_have, release, set_limits, set_schedule};
pub use entity::{Arrival, Entity};
pub use line::Line;
pub use parameters::{Parameters, UNIT};
pub use slot::Slot;
