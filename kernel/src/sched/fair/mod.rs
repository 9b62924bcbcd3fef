//! Whose turn it is on one CPU: earliest eligible virtual deadline first (Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First",
//! 1995; as Linux 6.12).
//!
//! * `weight` what share a nice value stands for
//! * `entity` what a task brings: virtual run time, deadline, lag
//! * `line`   those that wait for one CPU, in the order in which they get it
//!
//! A task's *virtual run time* is the time that it has run, divided by its weight. The weighted mean of all tasks of a CPU is that CPU's *virtual time*: what
//! each would have had if all had run at once. How far a task's own lies behind it is its *lag*: what it is owed. A task is *eligible* while it is
//! owed something. It asks for a *request* of processor time, and is to have had it by its *deadline*: of the eligible tasks the one with the
//! earliest deadline runs. So shares follow from the weights alone, and who asks for little at a time waits little.
//!
//! Lag is kept over sleep, over a move to another CPU, and over a change of weight. A debt is paid off while the task sleeps, as if it waited.

mod entity;
mod line;
mod weight;

pub use entity::{Entity, Running};
pub use line::Line;
pub use weight::{NICE_0, ONE, UNIT, effective, virtual_ns, weight};
