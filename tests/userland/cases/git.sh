# git: commits, merges, rebase, clone, gc, fsck, worktrees. (With core.hooksPath empty; a clone of a folder links files, which Linux's overlay cannot: --no-hardlinks.)
# needs: git
export HOME=/tmp/home GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
mkdir -p /tmp/home /tmp/case && cd /tmp/case || exit
git config --global user.name A; git config --global user.email a@b; git config --global init.defaultBranch main; git config --global advice.detachedHead false
git config --global gc.autoDetach false
git init -q r && cd r || exit
for i in $(seq 200); do echo "line $i" >f$i; done
git add . && git commit -qm first && git rev-parse HEAD
git checkout -qb side; for i in $(seq 20); do echo s$i >>f$i; git commit -qam "side $i"; done
git checkout -q main; for i in $(seq 101 110); do echo m$i >>f$i; git commit -qam "main $i"; done
git merge -q -m merge side && git rev-parse HEAD^{tree}
git checkout -q side && git rebase -q main 2>&1; git log --oneline | wc -l
git checkout -q -b third HEAD~5; echo x >>f1; git stash -q; git stash pop -q; git diff --stat | tail -1; git checkout -q .
git gc -q && git count-objects -v | grep -v size; git fsck --strict 2>&1 | grep -v dangling; git repack -adq
cd .. && git clone -q --no-hardlinks r c && cd c && git log --format=%h | md5sum
git worktree add -q ../w main && git -C ../w status -s | wc -l; git grep -c 'line 7' | wc -l; git blame f1 | wc -l
git bundle create -q ../b main && git bundle verify -q ../b && git archive main | md5sum
