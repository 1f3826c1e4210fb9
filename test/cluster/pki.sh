#!/usr/bin/env bash
# Certificates, keys and kubeconfigs of the cluster: pki.sh DIR NODE_IP NODE_NAME
set -euo pipefail
dir=$1 ip=$2 node=$3
mkdir -p "$dir" && cd "$dir"
newkey=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
openssl req -x509 "${newkey[@]}" -days 2 -subj /CN=lab-ca -keyout ca.key -out ca.crt 2> /dev/null
openssl ecparam -name prime256v1 -genkey -noout -out sa.key
openssl ec -in sa.key -pubout -out sa.pub 2> /dev/null

# cert NAME SUBJECT [SUBJECT-ALT-NAMES]
cert() {
  openssl req "${newkey[@]}" -subj "$2" -keyout "$1.key" -out "$1.csr" 2> /dev/null
  printf 'keyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n%s\n' "${3:+subjectAltName=$3}" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile "$1.ext" -out "$1.crt" 2> /dev/null
}

# user NAME SUBJECT: a certificate and the kubeconfig with it
user() {
  cert "$1" "$2"
  cat > "$1.kubeconfig" <<K
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://$ip:6443", certificate-authority-data: $(base64 -w0 < ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 < "$1.crt"), client-key-data: $(base64 -w0 < "$1.key")}}]
contexts: [{name: lab, context: {cluster: lab, user: $1}}]
current-context: lab
K
}

cert apiserver /CN=kube-apiserver "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:$ip"
cert apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
cert kubelet-serving "/O=system:nodes/CN=system:node:$node" "DNS:$node,IP:$ip"
user admin /O=system:masters/CN=admin
user controller-manager /CN=system:kube-controller-manager
user scheduler /CN=system:kube-scheduler
user kubelet "/O=system:nodes/CN=system:node:$node"
user proxy /CN=system:kube-proxy
user coredns /CN=system:coredns
