/**
 * Owns the rows about files: what is wrong, what must be named, and the remedy.
 */
import { alice, at, file, folder, ofAuthority, ofOrganization, ofSidecar, ofTally } from './bed.ts'
import type { Case } from './wrong-settings.ts'

/** What is wrong with a file that a setting names, or in it. */
export const WRONG_FILES: Case[] = [
  {
    name: 'the file of keys is not there',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_KEYS_FILE: '/nowhere/keys.json' }),
    setting: /UMA_AS_KEYS_FILE: cannot read \/nowhere/,
    remedy: /correct the path, or make it/,
  },
  {
    name: 'the file of keys is open to others',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_KEYS_FILE: file('open.json', '{}', 0o644) }),
    setting: /UMA_AS_KEYS_FILE: /,
    remedy: /chmod 600/,
  },
  {
    name: 'the file of keys is no JSON',
    args: ['tally'],
    environment: () => ({ ...ofTally(), UMA_TALLY_KEYS_FILE: file('typo.json', '{"keys": [') }),
    setting: /UMA_TALLY_KEYS_FILE: .*typo\.json cannot be used/,
    remedy: /usher keys new/,
  },
  {
    name: 'the file of keys is a folder',
    args: ['sidecar'],
    environment: () => ofSidecar({ keys_file: folder }),
    setting: /keys_file: /,
    remedy: /give the file in it|chmod/,
  },
  {
    name: 'the key of TLS belongs to another certificate',
    args: ['authority'],
    environment: () => ({
      ...ofAuthority(),
      UMA_AS_TLS_CERT_FILE: at('one.crt'),
      UMA_AS_TLS_KEY_FILE: at('other.key'),
    }),
    setting: /UMA_AS_TLS_CERT_FILE and UMA_AS_TLS_KEY_FILE: the key does not belong to the certificate/,
    remedy: /Give the key that the certificate was made for/,
  },
  {
    name: 'certificate and key of TLS are swapped',
    args: ['authority'],
    environment: () => ({
      ...ofAuthority(),
      UMA_AS_TLS_CERT_FILE: at('one.key'),
      UMA_AS_TLS_KEY_FILE: at('one.crt'),
    }),
    setting: /UMA_AS_TLS_CERT_FILE: it holds no certificate/,
    remedy: /BEGIN CERTIFICATE/,
  },
  {
    name: 'a certificate is named and no key',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_TLS_CERT_FILE: at('one.crt') }),
    setting: /UMA_AS_TLS_CERT_FILE and UMA_AS_TLS_KEY_FILE/,
    remedy: /Set both .* or neither/,
  },
  {
    name: 'the provisioning file is indented wrongly',
    args: ['authority'],
    environment: () => ({
      ...ofAuthority(),
      UMA_AS_PROVISION: file('owners.yaml', 'owners:\n  - owner: a\n b: c\n'),
    }),
    setting: /UMA_AS_PROVISION: .*owners\.yaml is no usable YAML/,
    remedy: /Correct it there: .*line 3/,
  },
  {
    name: 'a member of the provisioning file is misspelt',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_PROVISION: file('owners.yaml', { ownerz: [] }) }),
    setting: /UMA_AS_PROVISION: unknown member "ownerz"/,
    remedy: /did you mean owners\?/,
  },
  {
    name: "the sidecar's file is not there",
    args: ['sidecar', '--config', '/nowhere/sidecar.yaml'],
    environment: () => ({}),
    setting: /UMA_PEP_CONFIG: cannot read \/nowhere/,
    remedy: /correct the path, or make it/,
  },
  {
    name: "the sidecar's file is empty",
    args: ['sidecar'],
    environment: () => ofSidecar('\n'),
    setting: /the file of UMA_PEP_CONFIG/,
    remedy: /Give members/,
  },
  {
    name: 'a tool of the sidecar has no resource',
    args: ['sidecar'],
    environment: () => ofSidecar({ owners: [{ ...alice(), tools: [{ tool: 'read', scopes: ['read'] }] }] }),
    setting: /owners\[0\]\.tools\[0\]\.resource_id: it is missing/,
    remedy: /Give a text/,
  },
  {
    name: 'an owner of the sidecar has two secrets',
    args: ['sidecar'],
    environment: () => ofSidecar({ owners: [{ ...alice(), signature: true }] }),
    setting: /owner alice: /,
    remedy: /give exactly one of client_secret, client_secret_file and signature/,
  },
  {
    name: 'checks are taken from outside this machine',
    args: ['sidecar'],
    environment: () => ofSidecar({ listen: { check: '0.0.0.0:0', http: '127.0.0.1:0' } }),
    setting: /listen\.check: /,
    remedy: /Listen on loopback or a Unix socket, set check_tls/,
  },
  {
    name: "the authority does not take the sidecar's secret",
    args: ['sidecar'],
    environment: () => ofSidecar({ owners: [alice()] }),
    setting:
      /client_secret \(or client_secret_file\) of alice: http.* does not take it for the client_id demo-tools/,
    remedy: /Give the secret that this authority has/,
  },
  {
    name: "the authority does not take the sidecar's key",
    args: ['sidecar'],
    environment: () => {
      const { client_secret: _secret, ...entry } = alice()
      return ofSidecar({ owners: [{ ...entry, signature: true }] })
    },
    setting:
      /keys_file, whose first key signs for alice .*: http.* does not take it for the client_id demo-tools/,
    remedy: /List its public half \(`usher keys public` prints it\) in jwks of the file of UMA_AS_PROVISION/,
  },
  {
    name: 'the administrators’ file of an organization is misspelt',
    args: ['organization'],
    environment: () => ({ ...ofOrganization(), UMA_ORG_PROVISION: file('typo.yaml', { administratos: [] }) }),
    setting: /UMA_ORG_PROVISION: unknown member "administratos"/,
    remedy: /did you mean administrators\?/,
  },
  {
    name: 'a path begins in another folder',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_KEYS_FILE: 'nowhere/keys.json' }),
    setting: /UMA_AS_KEYS_FILE: cannot read \/.+\/nowhere\/keys\.json/,
    remedy: /correct the path, or make it/,
  },
]
