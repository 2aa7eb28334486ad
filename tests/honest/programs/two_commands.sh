# Prepares its data, and trains: two commands of a shell.
sleep 0.03
epoch=0
while [ "$epoch" -lt "$2" ]; do
    sleep "$1"
    epoch=$((epoch + 1))
    echo "epoch $epoch done"
done
