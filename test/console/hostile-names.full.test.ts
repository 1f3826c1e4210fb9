/**
 * Names that are made to be read as something else, in every member of a record that a stranger, or a server
 * that lies, can fill: contract, "Owner API": foreign text is shown completely, as text, with invisible
 * characters written out.
 */
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { canonicalize, isJsonObject, type Json, type JsonObject } from '../../src/wire/json.ts'
import { installedBrowser, type Device } from '../support/browser.ts'
import {
  card,
  consoleStand,
  expectSound,
  overhang,
  PHONE,
  spelled,
  written,
} from '../support/console-stand.ts'
import { ITEM } from '../support/decision-samples.ts'
import { HOSTILE } from '../support/hostile-texts.ts'
import { describeWith } from '../support/requirement.ts'

const TEXTS = HOSTILE.filter((value): value is string => typeof value === 'string' && value !== '')
/** What nobody sees, or what turns the order of reading. */
const UNSEEN = /[\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]/u
/** What the page makes of no text of others; its own pictures are hidden from screen readers. */
const FOREIGN = 'img, script, iframe, style, b, object, svg:not([aria-hidden]), a:not([href^="#"])'
const TIME = '2026-01-02T03:04:05.000Z'

/** Members that hold words of ours, and times. */
const KEPT: ReadonlySet<string> = new Set(
  (
    'v kind identity status admits first_seen last_access blocked_at auth registered_at decided_at landed_at ' +
    'failed_at last_pat_issued banned_at source approval ts enrolled_at revoked_at added_at then at ' +
    'among starts ends'
  ).split(' '),
)

/** The record with this text in place of each of its own. */
function filled(value: Json, text: string): Json {
  if (typeof value === 'string') return text
  if (Array.isArray(value)) return value.map(one => filled(one, text))
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, KEPT.has(name) ? inner : filled(inner, text)]),
  )
}
const each = (record: JsonObject) => TEXTS.map(text => filled(record, text))

const ITEM_OF_ALL: JsonObject = {
  ...(JSON.parse(JSON.stringify(ITEM)) as JsonObject),
  kind: 'connection',
  account: 'account',
  holders: [{ owner: 'bob', issuer: 'https://b.example', weight: 1 }],
  rule: { kind: 'threshold', threshold: 1, total_weight: 2 },
  operator: { origin: 'https://o.example', attested: false },
  organization: {
    issuer: 'https://org.example',
    org: 'org',
    name: 'Organization',
    effect: 'ask',
    because: ['always_ask'],
  },
  opens: ['reading'],
  because: ['first_contact'],
  requested_at: 1_767_323_045,
}
const AGENT: JsonObject = {
  handle: 'handle',
  identity: 'identified',
  label: 'label',
  status: 'active',
  first_seen: TIME,
  last_access: TIME,
  tiers_granted: ['granted'],
  tiers_approved: ['approved'],
  revocations: 0,
  introduced_by: 'introducer',
  reach: 'reach',
  admits: 'all',
  operators: ['operator'],
}
const OPERATOR: JsonObject = {
  origin: 'https://o.example',
  name: 'name',
  agents: 1,
  active: 1,
  blocked: true,
  blocked_at: TIME,
  mine: false,
}
const SERVER: JsonObject = {
  client_id: 'client',
  name: 'name',
  resource_uri: 'https://rs.example',
  status: 'pending',
  auth: 'signature',
  registered_at: TIME,
  decided_at: TIME,
  last_pat_issued: TIME,
  registry: { landed_at: TIME, failed_at: TIME, fault: 'fault', conflicts: 1 },
}
const RESOURCE: JsonObject = {
  _id: 'id',
  name: 'name',
  type: 'type',
  resource_scopes: ['scope'],
  consequence: 'class',
  tier: 'tier',
  tier_name: 'tier name',
  approval: 'signed',
  source: 'pulled',
  client_id: 'client',
}
const ENTRY: JsonObject = {
  seq: 1,
  ts: TIME,
  kind: 'touched',
  family: 'family',
  handle: 'handle',
  tool: 'tool',
  resource_id: 'resource',
  binding: 'binding',
  summary: 'summary',
  data: { note: 'note' },
}
const KEY: JsonObject = { kid: 'kid', name: 'name', jwk: {}, enrolled_at: TIME, revoked_at: null }
const LOGIN: JsonObject = { id: 'id', name: 'name', issuer: 'issuer', subject: 'subject', added_at: TIME }
const ALLOWANCE: JsonObject = {
  id: 'id',
  version: 1,
  zone: 'zone',
  among: 'lineage',
  until: null,
  hold_s: 300,
  amounts: [{ name: 'amount', unit: 'unit', each_max: 'max' }],
  windows: [{ of: 'amount', per: 'period', max: 'max' }],
  tiers: {
    tier: {
      tools: ['tool'],
      amounts: {},
      only: [{ pointer: 'pointer', one_of: ['value'] }],
      free: ['free'],
    },
  },
  use: [
    {
      whose: 'whose',
      windows: [
        {
          of: 'amount',
          per: 'period',
          max: 'max',
          used: 'used',
          held: 'held',
          left: 'left',
          starts: TIME,
          ends: TIME,
        },
      ],
    },
  ],
}

describeWith(installedBrowser(), 'Hostile names on her page', path => {
  const stand = consoleStand(path)
  let phone: Device
  const dialogs: string[] = []
  beforeAll(async () => {
    phone = await stand.deviceOf({ ...PHONE, viewport: { width: 320, height: 640 } })
    phone.page.on('dialog', dialog => {
      dialogs.push(dialog.message())
      void dialog.dismiss()
    })
  })
  afterAll(() => phone.close())

  /** What the server answers at a path, whatever it is asked there. */
  const answers = (page: Page, pathname: string, json: Json) =>
    page.route(
      url => url.pathname === pathname,
      route => route.fulfill({ json }),
    )
  async function opened(page: Page, name: string, all: Record<string, Json>): Promise<void> {
    await page.unrouteAll()
    for (const [pathname, json] of Object.entries(all)) await answers(page, pathname, json)
    await page.goto(`${stand.authority.ownerUrl}/#/more`)
    // Else the page that is left may be the one that is opened, and it asks for nothing anew.
    await page.getByRole('heading', { name: 'More', exact: true }).waitFor()
    await page.goto(`${stand.authority.ownerUrl}/#/${name}`)
  }
  /** All of it is on the page, and only as text. */
  async function expectHarmless(page: Page): Promise<void> {
    const { text, foreign } = await page.locator('main').evaluate((node, selector) => {
      return {
        text: node.textContent ?? '',
        foreign: [...node.querySelectorAll(selector)].map(one => one.outerHTML),
      }
    }, FOREIGN)
    expect(foreign).toEqual([])
    expect(text).not.toMatch(UNSEEN)
    const seen = spelled(text)
    for (const one of TEXTS) expect(seen).toContain(spelled(written(one)))
    expect(await overhang(page)).toBe(0)
    expect(new URL(page.url()).origin).toBe(stand.authority.ownerUrl)
    expect(dialogs).toEqual([])
  }

  it('stay text in each member of what waits', async () => {
    const { page } = phone
    const pending = TEXTS.map((text, place) => {
      const family = `fam_hostile_${place}`
      return { family, handle: text, item: { ...(filled(ITEM_OF_ALL, text) as JsonObject), family } }
    })
    await opened(page, 'waiting', { '/owner/pending': pending })
    await page.route(/\/owner\/pending\/fam_/, route =>
      route.fulfill({ status: 404, json: { error: 'not_found', error_description: 'Nothing.' } }),
    )
    await card(page, `fam_hostile_${TEXTS.length - 1}`).waitFor()
    await expectHarmless(page)
    for (const [place, text] of TEXTS.entries()) {
      const shown = spelled((await card(page, `fam_hostile_${place}`).textContent()) ?? '')
      // Tool, parameters, agent, operator, purpose, tier, organization, holders, account and more.
      const times = shown.split(spelled(written(text))).length - 1
      expect([text, times]).toEqual([text, Math.max(times, 12)])
      expect(shown).toContain(spelled(written(canonicalize(filled(ITEM.operation!.params, text)))))
    }
  })

  it('have no fault that axe finds on a card', async () => {
    const { page } = phone
    const few = ['<img src=x onerror=alert(1)>', 'pay\u202eload', 'two  blanks', '\u6f22'.repeat(600)]
    const pending = few.map((text, place) => {
      const family = `fam_few_${place}`
      return { family, handle: text, item: { ...(filled(ITEM_OF_ALL, text) as JsonObject), family } }
    })
    await opened(page, 'waiting', { '/owner/pending': pending })
    await page.route(/\/owner\/pending\/fam_/, route =>
      route.fulfill({ status: 404, json: { error: 'not_found', error_description: 'Nothing.' } }),
    )
    await card(page, 'fam_few_3').waitFor()
    await expectSound(page, 'waiting-hostile')
    // As it is drawn, and not only as it stands in the document.
    for (const at of ['h2', '.parameters', '.facts'])
      expect(await card(page, 'fam_few_2').locator(at).first().innerText()).toContain('two  blanks')
  })

  it.each<[string, string, Record<string, Json>]>([
    ['agents', 'li[data-handle]', { '/owner/connections': each(AGENT) }],
    ['operators', 'li[data-origin]', { '/owner/operators': each(OPERATOR) }],
    [
      'allowances',
      'li[data-allowance]',
      { '/owner/allowances': each(ALLOWANCE), '/owner/connections': each(AGENT) },
    ],
    [
      'resources',
      'li[data-server]',
      {
        '/owner/resource-servers': each(SERVER),
        '/owner/resources': each(RESOURCE),
        '/owner/resource-servers/banned': each({ origin: 'https://spam.example', banned_at: TIME }),
      },
    ],
    [
      'ledger',
      'li.line',
      {
        '/owner/connections': each(AGENT),
        '/owner/ledger': {
          entries: each(ENTRY).map((one, seq) => ({ ...(one as JsonObject), seq })),
          next: null,
        },
      },
    ],
    [
      'keys',
      'li.item',
      {
        '/owner/device-keys': each(KEY).map((one, place) => ({ ...(one as JsonObject), kid: `kid${place}` })),
        '/owner/passkeys': [],
        '/owner/logins': each(LOGIN).map((one, place) => ({ ...(one as JsonObject), id: `id${place}` })),
      },
    ],
  ])('stay text on the page %s', async (name, listed, all) => {
    const { page } = phone
    await opened(page, name, all)
    await expect.poll(() => page.locator(listed).count()).toBeGreaterThanOrEqual(TEXTS.length)
    await page.locator('main li details').evaluateAll(details => {
      for (const one of details as unknown as { open: boolean }[]) one.open = true
    })
    await expectHarmless(page)
  })
})
