//! The schedule's rules, one by one.

use super::*;

const LIMITS: Limits = Limits {
    page_tokens: 4,
    pages: 64,
    slots: 8,
    has_state: false,
    window_tokens: 200,
    batch_tokens: 32,
    chunk_tokens: 8,
    running: 8,
    waiting: 100,
    promised_percent: 1000,
    patience_ticks: 1000,
    snapshot_pages: 4,
    beside: Beside { keeps: false, spills: false, restores: false },
};

fn request(prompt: &[u32], max_tokens: usize) -> Request {
    Request { prompt: prompt.to_vec(), max_tokens: Some(max_tokens), caller: 0, priority: 0, salt: 0 }
}

/// `count` tokens that no other `start` has.
fn tokens(start: u32, count: u32) -> Vec<u32> {
    (0..count).map(|index| start * 1000 + index).collect()
}

/// Runs a step and goes on with `token` wherever logits were wanted, up to each sequence's reach; returns what was computed:
/// whose, and how many tokens.
fn step(schedule: &mut Schedule, now: u64, token: u32) -> Vec<(Id, u32)> {
    if !schedule.step(now) {
        return Vec::new();
    }
    let work = schedule.planned().work.clone();
    schedule.computed();
    for work in work.iter().filter(|work| work.output) {
        if work.end == schedule.reach_tokens(work.id) {
            schedule.finish(work.id);
        } else {
            schedule.push(work.id, &[token]);
        }
    }
    work.iter().map(|work| (work.id, work.end - work.start)).collect()
}

/// Steps until nothing is left to do; returns how many tokens were computed.
fn drain(schedule: &mut Schedule) -> u32 {
    let mut sum = 0;
    for now in 0.. {
        let work = step(schedule, now, 7);
        if work.is_empty() {
            assert!(schedule.is_idle());
            break;
        }
        sum += work.iter().map(|work| work.1).sum::<u32>();
    }
    sum
}

#[test]
fn a_second_turn_computes_only_what_is_new() {
    let mut schedule = Schedule::new(&LIMITS);
    let mut prompt = tokens(1, 50);
    schedule.submit(request(&prompt, 9), 0).unwrap();
    assert_eq!(drain(&mut schedule), 59);
    // Eight of the nine tokens written are computed and then some: 59 tokens, of which the last page is not full.
    prompt.extend([7; 9]);
    prompt.extend(tokens(2, 5));
    let id = schedule.submit(request(&prompt, 1), 0).unwrap();
    let work = step(&mut schedule, 0, 7);
    assert_eq!(work, [(id, 5)], "the page that was not full is gone on with");
    assert_eq!(schedule.cached_tokens(id), 59);
}

#[test]
fn two_identical_prompts_are_computed_once() {
    let mut schedule = Schedule::new(&LIMITS);
    let prompt = tokens(1, 41);
    let ids = [(); 2].map(|()| schedule.submit(request(&prompt, 1), 0).unwrap());
    let mut sum = [0, 0];
    while !schedule.is_idle() {
        for (id, count) in step(&mut schedule, 0, 7) {
            sum[usize::from(id == ids[1])] += count;
        }
    }
    // Each writes a token, and the second computes the last of its prompt.
    assert_eq!(sum, [42, 2]);
}

#[test]
fn prompts_that_part_wait_no_longer_than_they_agree() {
    let mut schedule = Schedule::new(&LIMITS);
    let common = tokens(1, 40);
    let prompts = [2, 3].map(|end| [common.clone(), tokens(end, 20)].concat());
    prompts.iter().for_each(|prompt| _ = schedule.submit(request(prompt, 1), 0).unwrap());
    assert_eq!(drain(&mut schedule), 40 + 2 * 20 + 2);
    assert_eq!(schedule.status().cached_tokens, 40);
}

#[test]
fn a_prompt_ends_where_it_did_whatever_is_written_behind_it() {
    let mut schedule = Schedule::new(&LIMITS);
    let id = schedule.submit(request(&tokens(1, 10), 20), 0).unwrap();
    for now in 0..5 {
        step(&mut schedule, now, 7);
    }
    assert_eq!((schedule.tokens(id).len(), schedule.prompt_end(id)), (15, 10));
    // Left alone and come back, it has what was written to compute again, or to find.
    assert!(schedule.park(id) && schedule.unpark(id, 5));
    step(&mut schedule, 6, 7);
    assert_eq!((schedule.tokens(id).len(), schedule.prompt_end(id)), (16, 10));
}

#[test]
fn a_salt_keeps_prefixes_apart() {
    let mut schedule = Schedule::new(&LIMITS);
    schedule.submit(request(&tokens(1, 40), 1), 0).unwrap();
    drain(&mut schedule);
    schedule.submit(Request { salt: 1, ..request(&tokens(1, 40), 1) }, 0).unwrap();
    drain(&mut schedule);
    assert_eq!(schedule.status().cached_tokens, 0);
}

#[test]
fn a_long_prompt_does_not_stop_those_that_write() {
    let mut schedule = Schedule::new(&LIMITS);
    let short = schedule.submit(request(&tokens(1, 3), 100), 0).unwrap();
    step(&mut schedule, 0, 7);
    let long = schedule.submit(request(&tokens(2, 90), 5), 1).unwrap();
    for now in 1..10 {
        let work = step(&mut schedule, now, 7);
        assert_eq!(work[0], (short, 1), "a token each step");
        assert_eq!(work[1], (long, 8), "as many as a chunk may have");
    }
}

#[test]
fn a_giant_prompt_leaves_room_for_a_small_one() {
    let mut schedule = Schedule::new(&LIMITS);
    let giant = schedule.submit(request(&tokens(1, 150), 5), 0).unwrap();
    let small = schedule.submit(request(&tokens(2, 10), 5), 0).unwrap();
    assert_eq!(step(&mut schedule, 0, 7), [(giant, 24), (small, 8)]);
}

#[test]
fn callers_are_served_alike_whatever_they_ask_for() {
    let limits = Limits { running: 1, slots: 1, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    for index in 0..6 {
        schedule.submit(Request { caller: 1, ..request(&tokens(index, 20), 4) }, 0).unwrap();
    }
    for index in 0..2 {
        schedule.submit(Request { caller: 2, ..request(&tokens(10 + index, 20), 4) }, 0).unwrap();
    }
    let mut order = Vec::new();
    while !schedule.is_idle() {
        for (id, _) in step(&mut schedule, 0, 7) {
            if order.last() != Some(&id.number) {
                order.push(id.number);
            }
        }
    }
    assert_eq!(order, [1, 7, 2, 8, 3, 4, 5, 6], "in turn, while both wait");
}

#[test]
fn who_fills_the_queue_leaves_room_for_others_and_does_not_make_them_wait_for_all_of_it() {
    let limits = Limits { running: 1, slots: 1, waiting: 50, patience_ticks: 5, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    let ask = |schedule: &mut Schedule, caller: u64, number: u32| {
        schedule.submit(Request { caller, ..request(&tokens(number, 4), 1) }, 0)
    };
    let taken = (0..100).take_while(|&number| ask(&mut schedule, 1, number).is_ok()).count();
    assert_eq!(taken, 41, "four of five, and the one that runs");
    let other = ask(&mut schedule, 2, 100).unwrap();
    // All have waited too long, but for the newcomer.
    let late = (100..120).flat_map(|now| step(&mut schedule, now, 7)).position(|(id, _)| id == other);
    assert!(late.is_some_and(|late| late <= 4), "{late:?}: every second place is not theirs");
}

#[test]
fn who_comes_to_a_long_queue_of_their_own_caller_does_not_wait_for_all_of_it() {
    let limits = Limits { running: 1, slots: 1, waiting: 50, patience_ticks: 5, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    let before: Vec<Id> = (0..30).map(|number| schedule.submit(request(&tokens(number, 4), 1), 0).unwrap()).collect();
    let newcomers = [100, 101].map(|number| schedule.submit(request(&tokens(number, 4), 1), 100).unwrap());
    let mut order: Vec<Id> = (100..164).flat_map(|now| step(&mut schedule, now, 7)).map(|(id, _)| id).collect();
    order.dedup();
    assert!(order.len() == 32 && schedule.is_idle(), "everybody is served, once");
    assert_eq!(order[..4], [before[0], newcomers[1], before[1], newcomers[0]], "every second place is a newcomer's");
    // Where nobody waits for long, it is in the order of arrival.
    let soon: Vec<Id> = (0..4).map(|number| schedule.submit(request(&tokens(number, 4), 1), 200).unwrap()).collect();
    let mut order: Vec<Id> = (200..204).flat_map(|now| step(&mut schedule, now, 7)).map(|(id, _)| id).collect();
    order.dedup();
    assert_eq!(order, soon[..2]);
}

#[test]
fn who_has_run_goes_on_before_who_came_last() {
    let limits = Limits { running: 1, slots: 1, waiting: 50, patience_ticks: 5, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    let all: Vec<Id> = (0..6).map(|number| schedule.submit(request(&tokens(number, 4), 2), 0).unwrap()).collect();
    assert_eq!(step(&mut schedule, 0, 7), [(all[0], 4)]);
    assert!(schedule.park(all[0]) && schedule.unpark(all[0], 50));
    let mut order: Vec<Id> = (50..60).flat_map(|now| step(&mut schedule, now, 7)).map(|(id, _)| id).collect();
    order.dedup();
    assert_eq!(order[..2], [all[1], all[0]], "at the first turn that is not of those that waited too long");
}

#[test]
fn who_is_parked_takes_no_part_and_goes_on_where_it_was() {
    let limits = Limits { running: 1, slots: 1, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    let [behind, next] = [1, 2].map(|start| schedule.submit(request(&tokens(start, 8), 6), 0).unwrap());
    assert_eq!(step(&mut schedule, 0, 7), [(behind, 8)]);
    assert!(schedule.park(behind) && !schedule.park(behind));
    let status = schedule.status();
    assert_eq!((status.parked, status.running, status.waiting, status.pages_used), (1, 0, 1, 0));
    drain(&mut schedule);
    assert!(schedule.is_idle() && schedule.get(next).is_none());
    assert!(schedule.unpark(behind, 50) && !schedule.unpark(behind, 50));
    assert_eq!(step(&mut schedule, 50, 7), [(behind, 1)], "everything is known");
    assert!(schedule.park(behind) && schedule.finish(behind), "it may end there");
    assert!(!schedule.unpark(behind, 51));
    assert_eq!((schedule.status().parked, schedule.status().pages_used), (0, 0));
}

#[test]
fn a_higher_priority_goes_first_and_takes_a_place_but_patience_ends() {
    let limits = Limits { running: 1, slots: 1, patience_ticks: 10, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    let low = schedule.submit(request(&tokens(1, 8), 50), 0).unwrap();
    step(&mut schedule, 0, 7);
    let high = schedule.submit(Request { priority: 1, ..request(&tokens(2, 8), 2) }, 1).unwrap();
    assert_eq!(step(&mut schedule, 1, 7), [(high, 8)], "the place is taken");
    assert_eq!(schedule.status().preemptions, 1);
    step(&mut schedule, 2, 7);
    step(&mut schedule, 3, 7);
    assert_eq!(step(&mut schedule, 4, 7), [(low, 1)], "and given back, with everything known");
    let other = schedule.submit(Request { priority: 1, ..request(&tokens(3, 8), 9) }, 11).unwrap();
    assert_eq!(step(&mut schedule, 11, 7), [(other, 8)], "writing is not waiting: it has patience left");
    for now in 12..=20 {
        assert_eq!(step(&mut schedule, now, 7), [(other, 1)]);
        schedule.submit(Request { priority: 1, ..request(&tokens(now as u32, 8), 2) }, now).unwrap();
    }
    assert_eq!(step(&mut schedule, 21, 7), [(low, 1)], "who waited long enough goes first");
    assert_eq!(step(&mut schedule, 22, 7), [(low, 1)], "and keeps the place");
}

#[test]
fn a_request_that_fits_the_machine_never_fails() {
    // Two sequences of 9 pages each on 10 pages.
    let limits = Limits { pages: 10, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    let ids = [1, 2].map(|start| schedule.submit(request(&tokens(start, 4), 32), 0).unwrap());
    let (mut lengths, mut now) = ([0; 2], 0);
    while !schedule.is_idle() {
        for (id, _) in step(&mut schedule, now, 7) {
            let which = usize::from(id == ids[1]);
            lengths[which] = lengths[which].max(schedule.get(id).map_or(36, |sequence| sequence.tokens.len()));
        }
        now += 1;
    }
    assert_eq!(lengths, [36, 36]);
    assert!(schedule.status().preemptions > 0);
}

#[test]
fn what_cannot_run_is_refused_and_a_full_queue_says_so() {
    let limits = Limits { waiting: 1, pages: 4, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    assert_eq!(schedule.submit(request(&[], 1), 0), Err(Refusal::Empty));
    assert_eq!(schedule.submit(request(&[1; 16], 1), 0), Err(Refusal::TooLong { prompt: 16, room: 16 }));
    schedule.submit(request(&[1; 15], 1), 0).unwrap();
    assert_eq!(schedule.submit(request(&[1], 1), 0), Err(Refusal::QueueFull { waiting: 1 }));
    drain(&mut schedule);
    schedule.submit(request(&[1], 1), 0).unwrap();
}

#[test]
fn who_is_cancelled_is_gone_at_once() {
    let mut schedule = Schedule::new(&LIMITS);
    let ids = [1, 2].map(|start| schedule.submit(request(&tokens(start, 20), 9), 0).unwrap());
    step(&mut schedule, 0, 7);
    assert!(schedule.finish(ids[0]) && !schedule.finish(ids[0]));
    assert!(step(&mut schedule, 1, 7).iter().all(|work| work.0 == ids[1]));
    schedule.submit(request(&tokens(1, 20), 1), 2).unwrap();
    step(&mut schedule, 2, 7);
    assert!(schedule.status().cached_tokens > 0, "what was computed for it stays known");
}

#[test]
fn an_abandoned_step_ends_those_that_ran_and_forgets_everything() {
    let limits = Limits { running: 1, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    let ids = [1, 2].map(|start| schedule.submit(request(&tokens(start, 20), 9), 0).unwrap());
    step(&mut schedule, 0, 7);
    assert!(schedule.step(1));
    let mut lost = Vec::new();
    schedule.abandon(|id| lost.push(id));
    assert_eq!(lost, [ids[0]]);
    assert_eq!(schedule.status().pages_free, 64);
    assert_eq!(step(&mut schedule, 2, 7), [(ids[1], 20)]);
}

#[test]
fn a_state_goes_on_where_it_was_left_and_from_the_end_of_a_prompt() {
    let limits = Limits { has_state: true, slots: 12, snapshot_pages: 100, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    let prompt = tokens(1, 50);
    schedule.submit(request(&prompt, 9), 0).unwrap();
    assert_eq!(drain(&mut schedule), 59);
    let turn = [&prompt[..], &[7; 9], &tokens(2, 5)].concat();
    let id = schedule.submit(request(&turn, 1), 0).unwrap();
    assert_eq!(step(&mut schedule, 0, 7), [(id, 1)], "up to the end of the prompt's last full page");
    assert_eq!((schedule.cached_tokens(id), schedule.moves().len()), (59, 1));
    drain(&mut schedule);
    // Another answer to the same prompt starts at its last full page: 48 of 50 tokens.
    let again = [&prompt[..], &[8]].concat();
    let id = schedule.submit(request(&again, 1), 0).unwrap();
    step(&mut schedule, 0, 7);
    assert_eq!(schedule.cached_tokens(id), 48);
}

#[test]
fn two_identical_prompts_with_a_state_are_computed_once() {
    let limits = Limits { has_state: true, slots: 12, ..LIMITS };
    let mut schedule = Schedule::new(&limits);
    let prompt = tokens(1, 41);
    let ids = [(); 2].map(|()| schedule.submit(request(&prompt, 1), 0).unwrap());
    let mut sum = [0, 0];
    while !schedule.is_idle() {
        for (id, count) in step(&mut schedule, 0, 7) {
            sum[usize::from(id == ids[1])] += count;
        }
    }
    assert_eq!(sum, [42, 2]);
}
