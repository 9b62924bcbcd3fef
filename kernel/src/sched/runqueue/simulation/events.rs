//! What happens on the machine, one event after the other: tasks that wake, ticks, turns that end, tasks that have done what they had to do; and what a CPU does
//! then, as `switch` and `idle` do.

use super::super::super::task::{State, Task};
use super::super::super::work::Work;
use super::super::machine::Machine;
use super::super::{balance, calls, deadline, place, quota, realtime};
use super::{CONTENDED_TICK, Event, Habit, MS, Simulation, TICK};
use alloc::sync::Arc;
use core::cmp::Reverse;
use core::sync::atomic::Ordering::Relaxed;
use sync::machine::CpuId;

impl Simulation {
    /// Goes on until `until`.
    pub fn run(&self, until: u64) {
        loop {
            let next = self.events.borrow().peek().map(|Reverse(next)| *next);
            let Some((time, event)) = next.filter(|(time, _)| *time <= until) else { break };
            self.events.borrow_mut().pop();
            self.now.set(time);
            self.handle(event);
            self.settle();
        }
        self.now.set(until);
    }

    fn handle(&self, event: Event) {
        match event {
            Event::Wake(number) => {
                let task = self.task(number);
                self.here.set(self.waker.get().unwrap_or(task.cpu()));
                self.lives.borrow_mut()[number].woken = Some(self.now.get());
                place::wake(self, &task, &[State::Interruptible]);
            }
            Event::Tick(cpu) => {
                let this = &self.cpus[cpu as usize];
                if this.next_tick.get() != self.now.get() {
                    return;
                }
                this.next_tick.set(u64::MAX);
                self.here.set(cpu);
                let current = self.current(cpu);
                if Arc::ptr_eq(&current, &this.idle) {
                    return;
                }
                self.count(&current, true);
                let contended = balance::tick(self);
                if contended {
                    current.work.set(Work::RESCHED);
                }
                self.set_tick(cpu, if contended { CONTENDED_TICK } else { TICK });
            }
            Event::TurnEnd(cpu) => {
                let this = &self.cpus[cpu as usize];
                if this.turn_end.get() != self.now.get() {
                    return;
                }
                this.turn_end.set(u64::MAX);
                self.here.set(cpu);
                deadline::look_soon(self);
                let current = self.current(cpu);
                if current.slot.is_counted() {
                    self.count(&current, true);
                    quota::look_soon(self);
                }
                if this.queue.waiting() == 0
                    || current.class().is_realtime()
                    || Arc::ptr_eq(&current, &this.idle)
                {
                    return;
                }
                let left = this.queue.queue.lock().turn_left(self.now.get());
                match left {
                    Some(0) => current.work.set(Work::RESCHED),
                    Some(left) => self.look_at(self.now.get() + left),
                    None => {}
                }
            }
            Event::Done(cpu, number) => {
                self.here.set(cpu);
                let current = self.current(cpu);
                let mut lives = self.lives.borrow_mut();
                let (life, now) = (&mut lives[number], self.now.get());
                let is_over = Arc::ptr_eq(&life.task, &current) && now - life.since >= life.left;
                if let (true, Some((runs, sleeps))) = (is_over, life.habit.0) {
                    let partner = life.partner;
                    let had_turn = core::mem::take(&mut life.has_turn);
                    if let Some(partner) = partner.filter(|_| had_turn) {
                        (lives[partner].has_turn, lives[partner].woken) = (true, Some(now));
                        drop(lives);
                        place::wake(self, &self.task(partner), &[State::Interruptible]);
                        lives = self.lives.borrow_mut();
                    }
                    if lives[number].has_turn {
                        lives[number].left = runs;
                        return self.at(now + runs, Event::Done(cpu, number));
                    }
                    current.set_state(State::Interruptible);
                    current.work.set(Work::RESCHED);
                    drop(lives);
                    self.count(&current, true);
                    let wakes = {
                        let life = &mut self.lives.borrow_mut()[number];
                        life.left = runs;
                        life.jobs.as_mut().map_or(now + sleeps, |jobs| jobs.done(now))
                    };
                    if partner.is_none() {
                        self.at(wakes, Event::Wake(number));
                    }
                }
            }
        }
    }

    /// Lets this CPU, and those that were kicked, do what they have been told to.
    pub(super) fn settle(&self) {
        let mut next = Some(self.here.get());
        while let Some(cpu) = next {
            let this = &self.cpus[cpu as usize];
            let current = self.current(cpu);
            let idles = Arc::ptr_eq(&current, &this.idle);
            let kicked = this.kicked.take();
            self.go_to_user_mode(cpu, &current);
            if kicked {
                self.here.set(cpu);
                calls::answer(self);
            }
            if kicked && !idles && !current.work.any(Work::RESCHED) && this.queue.waiting() > 0 {
                // As `expect_turn`.
                self.here.set(cpu);
                let left = this.queue.queue.lock().turn_left(self.now.get());
                left.into_iter().for_each(|left| self.look_at(self.now.get() + left));
            } else if kicked || current.work.any(Work::RESCHED) || idles && this.queue.waiting() > 0 {
                self.here.set(cpu);
                self.schedule(cpu);
            } else {
                next = self.kicks.borrow_mut().pop();
            }
            if this.queue.queue.lock().take_uneven() {
                self.here.set(cpu);
                realtime::even_out(self);
                next = next.or(Some(cpu));
            }
        }
        self.watch_waste();
    }

    /// As `throttle::wait_for_quota`.
    fn go_to_user_mode(&self, cpu: CpuId, current: &Task) {
        if !current.work.any(Work::QUOTA) || current.state() != State::Running {
            return;
        }
        current.work.clear(Work::QUOTA);
        self.here.set(cpu);
        if let (Some(until), Some(number)) = (quota::wait(self, current), self.number_of(current)) {
            self.count(current, true);
            current.set_state(State::Interruptible);
            current.work.set(Work::RESCHED);
            self.at(until, Event::Wake(number));
        }
    }

    /// Once in a millisecond.
    fn watch_waste(&self) {
        if self.now.get() < self.watched.get() + MS {
            return;
        }
        self.watched.set(self.now.get());
        let is_wasted = self.cpus.iter().any(|cpu| cpu.queue.idles())
            && self.cpus.iter().any(|cpu| cpu.queue.is_stealable());
        let since = self.wasted_since.get().filter(|_| is_wasted).or(is_wasted.then_some(self.now.get()));
        self.wasted.set(self.wasted.get().max(since.map_or(0, |since| self.now.get() - since)));
        self.wasted_since.set(since);
        let since = self
            .stranded_since
            .get()
            .filter(|_| self.is_stranded())
            .or(self.is_stranded().then_some(self.now.get()));
        self.stranded.set(self.stranded.get().max(since.map_or(0, |since| self.now.get() - since)));
        self.stranded_since.set(since);
    }

    /// Does a CPU idle that might run a task of a CPU where others wait?
    fn is_stranded(&self) -> bool {
        let idle = |cpu: CpuId| self.cpus[cpu as usize].queue.idles();
        let waits = |cpu: CpuId| self.cpus[cpu as usize].queue.waiting() > 0;
        (0..self.cpus.len() as CpuId).filter(|cpu| idle(*cpu)).any(|cpu| {
            let tasks = self.lives.borrow();
            tasks.iter().map(|life| &life.task).any(|task| {
                let home = task.cpu();
                task.state() == State::Running && !idle(home) && waits(home) && task.affinity().allows(cpu)
            })
        })
    }

    /// As `switch::schedule` and `idle::idle_main`.
    fn schedule(&self, cpu: CpuId) {
        let (this, now) = (&self.cpus[cpu as usize], self.now.get());
        let own = &this.queue;
        own.show_busy();
        let mut queue = own.queue.lock();
        let previous = queue.current.take().unwrap();
        previous.work.clear(Work::RESCHED);
        let (idles, state) = (Arc::ptr_eq(&previous, &this.idle), previous.state());
        if idles && own.waiting() == 0 {
            queue.current = Some(previous);
            drop(queue);
            if !balance::steal(self) {
                own.show_idle(now, 0);
                assert!(own.shown.idle.halt(), "no other CPU runs between the two");
                return;
            }
            return self.schedule(cpu);
        }
        let mut leaves = None;
        if !idles {
            self.count(&previous, false);
            if previous.has_changed() {
                queue.take_change(own, cpu, &previous, now, self.slice());
            }
            previous.on_cpu.off();
            if state == State::Running && previous.moves.swap(false, Relaxed) {
                queue.leave(&previous, self.slice());
                leaves = Some(previous);
            } else if state == State::Running {
                queue.put_back(own, cpu, previous, self.slice());
            } else {
                queue.leave(&previous, self.slice());
                core::mem::forget(previous);
            }
        }
        let next = queue.take_first(own, now).unwrap_or_else(|| this.idle.clone());
        let goes_idle = Arc::ptr_eq(&next, &this.idle);
        queue.current = Some(next.clone());
        if let Some(task) = leaves {
            drop(queue);
            place::send_away(self, task);
            queue = own.queue.lock();
        }
        if goes_idle {
            drop(queue);
            return self.schedule(cpu);
        }
        next.clock.start(now);
        next.raise_again();
        next.on_cpu.on();
        let turn = queue.first_turn();
        drop(queue);
        turn.into_iter().for_each(|left| self.look_at(now + left));
        let number = self.number_of(&next).unwrap();
        let life = &mut self.lives.borrow_mut()[number];
        life.since = now;
        if let Some(woken) = life.woken.take() {
            life.latest = life.latest.max(now - woken);
            life.late += u64::from(now - woken > MS);
        }
        if life.habit.0.is_some() {
            self.at(now + life.left, Event::Done(cpu, number));
        }
        self.set_tick(cpu, if own.waiting() > 0 { CONTENDED_TICK } else { TICK });
    }
}
