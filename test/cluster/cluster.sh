#!/usr/bin/env bash
# A whole Kubernetes cluster of one node in namespaces of its own (mount, network, pid): no Docker, no registry, nothing on the network of the
# machine, nothing written outside of LAB_DIR but cgroups under a name of its own.
#
#   cluster.sh up           start it
#   cluster.sh exec CMD...  a command inside of it, with KUBECONFIG set; names of the cluster are resolved there
#   cluster.sh down         end it, and remove its cgroups
#   cluster.sh cgroups      where cgroups are made
#
# LAB_BIN: what programs.sh built. LAB_DIR: its state, with images/*.tar to import. LAB_NODE=api: etcd and API server alone.
# etcd, containerd, runc, the CNI plugins and iptables are Debian's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Where a folder is a cgroup: one root for each controller, or one for all.
cgroup_roots() { awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts; }
if [ "${1:-}" = cgroups ]; then cgroup_roots && exit 0; fi

: "${LAB_DIR:?}" "${LAB_BIN:?}"
LAB_NODE=${LAB_NODE:-all}
IP=10.211.0.1
NODE=lab
CGROUP=usher-$(basename "$LAB_DIR")
export LAB_DIR LAB_BIN LAB_NODE

# What runs the cluster comes after what runs in it: containerd alone is not niced, for its containers would inherit that.
start() { # start NAME CMD...
  local name=$1 nice=(nice -n 10)
  shift
  [ "$name" != containerd ] || nice=()
  "${nice[@]}" "$@" > "$LAB_DIR/log/$name.log" 2>&1 &
}

# kubelet and containerd write to these wherever their own folders are, and kubelet sets what holds for the whole machine.
hide() {
  mount --make-rprivate /
  for folder in /run /var/log /var/lib/cni; do
    mkdir -p "$LAB_DIR/hidden$folder"
    [ ! -d $folder ] || mount --bind "$LAB_DIR/hidden$folder" $folder
  done
  mount --make-rshared /
  local setting
  for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 \
    kernel/keys/root_maxbytes=25000000; do
    mkdir -p "$(dirname "$LAB_DIR/sysctl/$setting")"
    echo "${setting#*=}" > "$LAB_DIR/sysctl/${setting%=*}"
    mount --bind "$LAB_DIR/sysctl/${setting%=*}" "/proc/sys/${setting%=*}"
  done
  printf 'nameserver %s\nsearch cluster.local\n' $IP > "$LAB_DIR/resolv.conf"
  mount --bind "$LAB_DIR/resolv.conf" "$(realpath /etc/resolv.conf)" || true
}

network() {
  ip link set lo up
  ip link add lab0 type bridge && ip addr add $IP/24 dev lab0 && ip link set lab0 up
  ip route add default dev lab0
  sysctl -qw net.ipv4.ip_forward=1
  sysctl -qw net.bridge.bridge-nf-call-iptables=1 2> /dev/null || true
}

inside() {
  export PATH=$LAB_BIN:$PATH
  local pki=$LAB_DIR/pki
  hide
  network
  start etcd etcd --data-dir "$LAB_DIR/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync
  start kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address=$IP --secure-port=6443 \
    --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
    --client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --kubelet-client-certificate="$pki/apiserver-kubelet-client.crt" --kubelet-client-key="$pki/apiserver-kubelet-client.key" \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local
  export KUBECONFIG=$pki/admin.kubeconfig
  [ "$LAB_NODE" = api ] || runtime
  until kubectl get --raw /readyz > /dev/null 2>&1; do sleep 0.5; done
  [ "$LAB_NODE" = api ] || node
  touch "$LAB_DIR/run/ready"
  # Process 1 of the namespace: when it ends, the kernel ends all others.
  exec sleep infinity
}

# Before the API server is there: importing images takes longer than it does.
runtime() {
  mkdir -p "$LAB_DIR"/{containerd,net.d}
  cat > "$LAB_DIR/net.d/10-lab.conflist" <<C
{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "promiscMode": false,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.212.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$LAB_DIR/cni"}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
C
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE no process's score may be lowered.
  cat > "$LAB_DIR/containerd.toml" <<C
version = 2
root = "$LAB_DIR/containerd/root"
state = "$LAB_DIR/containerd/state"
[grpc]
  address = "$LAB_DIR/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  sandbox_image = "localhost/pause:lab"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$LAB_DIR/net.d"
C
  start containerd containerd --config "$LAB_DIR/containerd.toml"
  until ctr -a "$LAB_DIR/run/containerd.sock" version > /dev/null 2>&1; do sleep 0.2; done
  for image in "$LAB_DIR"/images/*.tar; do
    ctr -a "$LAB_DIR/run/containerd.sock" -n k8s.io images import "$image"
    rm "$image"
  done
  # The same under another name, to be upgraded to.
  ctr -a "$LAB_DIR/run/containerd.sock" -n k8s.io images tag localhost/usher:lab localhost/usher:next
}

node() {
  local pki=$LAB_DIR/pki controller
  start kube-controller-manager kube-controller-manager --kubeconfig="$pki/controller-manager.kubeconfig" --leader-elect=false \
    --use-service-account-credentials=true --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" \
    --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key"
  start kube-scheduler kube-scheduler --kubeconfig="$pki/scheduler.kubeconfig" --leader-elect=false
  # All pods together would get as much of a busy processor as one process of the machine does.
  for controller in $(cgroup_roots); do
    mkdir -p "$controller/$CGROUP"
    [ ! -e "$controller/$CGROUP/cpu.shares" ] || echo 16384 > "$controller/$CGROUP/cpu.shares"
    [ ! -e "$controller/$CGROUP/cpu.weight" ] || echo 1600 > "$controller/$CGROUP/cpu.weight"
  done
  mkdir -p "$LAB_DIR/kubelet"
  # Without CAP_SYS_RESOURCE oomScoreAdj must be 0.
  cat > "$LAB_DIR/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$LAB_DIR/run/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $pki/kubelet-serving.crt
tlsPrivateKeyFile: $pki/kubelet-serving.key
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
oomScoreAdj: 0
clusterDomain: cluster.local
clusterDNS: [$IP]
resolvConf: ""
imageMinimumGCAge: 24h
# How soon a changed Secret is in its pods.
syncFrequency: 5s
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
volumePluginDir: $LAB_DIR/kubelet/plugins
C
  start kubelet kubelet --config="$LAB_DIR/kubelet.yaml" --kubeconfig="$pki/kubelet.kubeconfig" --hostname-override=$NODE --node-ip=$IP \
    --root-dir="$LAB_DIR/kubelet"
  cat > "$LAB_DIR/proxy.yaml" <<C
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: 10.212.0.0/16
clientConnection: {kubeconfig: $pki/proxy.kubeconfig}
conntrack: {maxPerCore: 0, min: 0, tcpCloseWaitTimeout: 0s, tcpEstablishedTimeout: 0s}
C
  start kube-proxy kube-proxy --config="$LAB_DIR/proxy.yaml" --hostname-override=$NODE
  cat > "$LAB_DIR/Corefile" <<C
.:53 {
  bind $IP
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $pki/coredns.kubeconfig lab
  }
  cache 2
}
C
  kubectl create clusterrole lab:coredns --verb=list,watch --resource=services,pods,namespaces,endpointslices.discovery.k8s.io > /dev/null
  kubectl create clusterrolebinding lab:coredns --clusterrole=lab:coredns --user=system:coredns > /dev/null
  start coredns coredns -conf "$LAB_DIR/Corefile"
}

case ${1:-} in
  up)
    mkdir -p "$LAB_DIR"/{log,run,images}
    rm -f "$LAB_DIR"/run/*
    bash "$here/pki.sh" "$LAB_DIR/pki" $IP $NODE
    # A session of its own, so that it outlives the shell which started it.
    setsid unshare --mount --net --pid --fork --mount-proc --kill-child bash "$0" inside > "$LAB_DIR/log/inside.log" 2>&1 < /dev/null &
    echo $! > "$LAB_DIR/run/unshare.pid"
    for _ in $(seq 180); do
      [ -e "$LAB_DIR/run/ready" ] && exit 0
      kill -0 "$(cat "$LAB_DIR/run/unshare.pid")" 2> /dev/null || break
      sleep 1
    done
    echo "The cluster did not start: see $LAB_DIR/log." >&2
    exit 1
    ;;
  inside) inside ;;
  exec)
    shift
    # The child of `unshare` is the namespaces' process 1.
    init=$(pgrep -P "$(cat "$LAB_DIR/run/unshare.pid")")
    exec nsenter -t "$init" -m -n -p env "LAB_DIR=$LAB_DIR" "LAB_CRDS=$LAB_BIN/../crds" "PATH=$LAB_BIN:$PATH" "KUBECONFIG=$LAB_DIR/pki/admin.kubeconfig" \
      bash -c 'cd "$0" && exec "$@"' "$PWD" "$@"
    ;;
  down)
    pid=$(cat "$LAB_DIR/run/unshare.pid" 2> /dev/null) && kill -KILL "$pid" 2> /dev/null || true
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      left=
      for controller in $(cgroup_roots); do
        [ -d "$controller/$CGROUP" ] || continue
        find "$controller/$CGROUP" -depth -type d -exec rmdir {} + 2> /dev/null || left=1
      done
      [ -n "$left" ] || break
      sleep 0.5
    done
    ;;
  *) sed -n '2,11p' "$0" && exit 2 ;;
esac
