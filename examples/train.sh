# A shell script that trains three epochs of so many seconds, and prints a line at the end of each.
#   speedproof prove 'sh train.sh 0.4' 'sh train.sh 0.2' --epoch '^epoch' --quality 'score (\S+)' --margin 0.01
echo "epoch 0: starting"
for epoch in 1 2 3; do
  sleep "$1"
  echo "epoch $epoch: score 0.$epoch${SPEEDPROOF_SEED:-0}"
done
