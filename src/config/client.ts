/**
 * Owns the settings of the command-line clients: `usher agent`, `usher owner` and `usher admin`. Contract:
 * "Authentication": each holds one key. An option on the command line wins over its variable.
 */
import { DEFAULT_SPEC_NS } from '../wire/names.ts'
import { realmIssuers } from './oidc.ts'
import { defaulted, defineSettings, filePath, optional, text, toggle, url } from './settings.ts'

export const CLIENT_SETTINGS = defineSettings({
  title: 'usher agent, usher owner, usher admin',
  settings: {
    ownerApi: optional('UMA_OWNER_API', url, {
      description:
        'Address of the owner API (`--api`). When left out: `owner_endpoint` of the metadata of the issuer, else the issuer.',
    }),
    ownerIssuer: optional('UMA_OWNER_ISSUER', url, {
      description:
        "The authority's issuer (`--issuer`): every owner request is signed over its scheme and authority.",
    }),
    ownerKey: defaulted('UMA_OWNER_KEY', filePath, '~/.usher/owner-key.json', {
      description: "The owner's device key (`--key`), a private JWK; `usher owner key` makes it.",
    }),
    ownerToken: optional('UMA_OWNER_TOKEN', text, {
      description:
        'An access token of her realm (`--token`), used instead of a device key unless `--key` is given.',
    }),
    adminApi: optional('UMA_ADMIN_API', url, {
      description: 'Address of the administration of the organization (`--api`); its issuer when left out.',
    }),
    adminIssuer: optional('UMA_ADMIN_ISSUER', url, {
      description:
        "The organization's issuer (`--issuer`): every request of an administrator is signed over its scheme and authority.",
    }),
    adminKey: defaulted('UMA_ADMIN_KEY', filePath, '~/.usher/admin-key.json', {
      description: "The administrator's device key (`--key`), a private JWK; `usher admin key` makes it.",
    }),
    adminToken: optional('UMA_ADMIN_TOKEN', text, {
      description:
        "An access token of the organization's realm (`--token`), used instead of a device key unless `--key` is given.",
    }),
    agentKey: defaulted('UMA_AGENT_KEY', filePath, '~/.usher/agent-key.json', {
      description: "The agent's key (`--key`), a private JWK; `usher agent keygen` makes it.",
    }),
    agentStore: defaulted('UMA_AGENT_STORE', filePath, '~/.usher/agent', {
      description: 'Directory of receipts and standing grants (`--store`).',
    }),
    agentIdentityIssuers: optional('UMA_AGENT_IDENTITY_ISSUERS', realmIssuers, {
      description:
        'Issuers that may vouch for the agent, separated by commas (`--identity-issuer`). An authority that asks for an assertion by another gets none.',
    }),
    agentIdentityCommand: optional('UMA_AGENT_IDENTITY_COMMAND', text, {
      description:
        'A program that fetches identity assertions (`--identity-command`): it reads `{issuer, token_endpoint, audience, resource, scope, jkt, client_id}` as JSON and prints the JWT.',
    }),
    bridgeState: optional('UMA_BRIDGE_STATE', filePath, {
      description:
        'Folder in which `usher agent bridge` keeps keys, grants and requests under way; `usher` in XDG_STATE_HOME when left out.',
    }),
    stateHome: optional('XDG_STATE_HOME', filePath, {
      description:
        'Folder in which programs keep their state; ~/.local/state when left out. Only the bridge uses it.',
    }),
    extraCaCerts: optional('NODE_EXTRA_CA_CERTS', filePath, {
      description:
        "Node's own: a file with the certificates of a private CA. `usher agent bridge config` writes it into the entry.",
    }),
    specNs: defaulted('UMA_SPEC_NS', url, DEFAULT_SPEC_NS, {
      description: 'The base of identifier URIs, `{spec_ns}`; the same for every party.',
    }),
    devLoopback: defaulted('UMA_DEV_LOOPBACK', toggle, 'false', {
      description: 'Development only: admits http to literal loopback hosts.',
    }),
  },
})
