//! What objects hold of a budget, and give back.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::alone;

use vm::{Budget, BudgetKind, Object, PAGE_SIZE, VmError};

fn fill(object: &Object, page: u64) -> Result<(), VmError> {
    object.write(page * PAGE_SIZE as u64, 1, |mut bytes| {
        bytes.clear();
        1
    })?;
    Ok(())
}

#[test]
fn pages_are_counted_while_they_are_resident() {
    let _g = alone();
    let owner = Budget::try_new().unwrap();
    owner.set_limit(BudgetKind::Pages, Some(4));
    let used = || owner.used(BudgetKind::Pages);
    let object = Object::try_owned_in(1, Some(owner.share())).unwrap();
    (0..3).for_each(|page| fill(&object, page).unwrap());
    fill(&object, 2).unwrap();
    assert_eq!(used(), 3);
    let other = Object::try_owned_in(2, Some(owner.share())).unwrap();
    fill(&other, 7).unwrap();
    assert_eq!(fill(&object, 3), Err(VmError::Full));
    fill(&object, 1).unwrap();
    object.punch(1, 2).unwrap();
    fill(&other, 8).unwrap();
    assert_eq!(used(), 4);
    object.set_size(1).unwrap();
    assert_eq!(used(), 3);
    drop(other);
    assert_eq!(used(), 1);
    assert_eq!(object.allocate(0, 5, &|| false), Err(VmError::Full));
    assert_eq!((object.allocate(0, 4, &|| false), used()), (Ok(true), 4));
    drop(object);
    assert_eq!(used(), 0);
}

#[test]
fn tables_that_are_left_without_pages_are_counted() {
    let _g = alone();
    let owner = Budget::try_new().unwrap();
    owner.set_limit(BudgetKind::Pages, Some(2));
    let object = Object::try_owned_in(1, Some(owner.share())).unwrap();
    let mut punched = 0;
    let refused = (1..100_u64).find_map(|n| {
        let page = n << 12;
        let filled = fill(&object, page);
        object.punch(page, page + 1).unwrap();
        punched += 1;
        filled.err()
    });
    assert_eq!(refused, Some(VmError::Full));
    assert!(punched < 20, "{punched}");
    assert_eq!(owner.used(BudgetKind::Pages), 0);
    assert!(owner.used(BudgetKind::Tables) <= 12);
    drop(object);
    assert_eq!(owner.used(BudgetKind::Tables), 0);
}

#[test]
fn a_budget_outlives_its_owner_with_the_last_object() {
    let _g = alone();
    let owner = Budget::try_new().unwrap();
    let object = Object::try_owned_in(1, Some(owner.share())).unwrap();
    drop(owner);
    fill(&object, 0).unwrap();
    assert_eq!(object.budget().map(|budget| budget.used(BudgetKind::Pages)), Some(1));
}
