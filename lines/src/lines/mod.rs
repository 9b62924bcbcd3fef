//! Line mode: cache lines that CPUs take from each other (`directory`), and lines that more than one CPU uses while one of them writes (`recorder` has
//! what each CPU did, `sharing` puts the CPUs together), with what the guest's memory says of their pages (`guest`).
pub mod cache;
pub mod directory;
pub mod guest;
pub mod recorder;
pub mod sharing;
mod spread;
