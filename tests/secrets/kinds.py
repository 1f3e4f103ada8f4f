"""Secret kinds by shape. A kind is known by itself, by the name before it, or by the text around it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of secret.

    Attributes:
        name: What it is.
        shape: Its shape, see `shapes`; prefixes are cut by `|` so that no line holds a whole one.
        keys: Names it stands behind; none where the shape alone tells.
        around: Templates of its own with `{}` for the secret, instead of the general contexts.
        wrapped: Encoded in base64 as a whole.
    """

    name: str
    shape: str
    keys: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    wrapped: bool = False


def _by_shape(text: str) -> list[Kind]:
    rows = [line.split(None, 1) for line in text.strip().splitlines()]
    return [Kind(name, shape.replace("|", "").strip()) for name, shape in rows]


def _by_key(text: str) -> list[Kind]:
    rows = [line.split() for line in text.strip().splitlines()]
    return [Kind(name, shape, tuple(keys)) for name, shape, *keys in rows]


SHAPED = _by_shape("""
aws_access_key_id          AK|IA{2:16}
aws_session_key_id         AS|IA{2:16}
aws_bedrock_key            AB|SK{b:108}==
gcp_api_key                AI|za{u:35}
gcp_oauth_secret           GOC|SPX-{u:28}
gcp_access_token           ya|29.{u:80}
gcp_refresh_token          1|//0{d:1}{u:60}
azure_client_secret        {a:3}8|Q~{u:34}
github_token               gh|p_{a:36}
github_oauth               gh|o_{a:36}
github_app                 gh|s_{a:36}
github_fine_grained        github|_pat_{a:22}_{a:59}
gitlab_token               gl|pat-{u:20}
gitlab_deploy_token        gl|dt-{u:20}
gitlab_runner_token        gl|rt-{u:20}
gitlab_trigger_token       gl|ptt-{h:40}
bitbucket_password         AT|BB{a:32}
atlassian_token            AT|ATT3xFfGF0{u:170}={H:8}
slack_bot_token            xox|b-{d:12}-{d:12}-{a:24}
slack_user_token           xox|p-{d:12}-{d:12}-{d:12}-{h:32}
slack_app_token            xapp|-1-A{X:10}-{d:13}-{h:64}
slack_webhook              https://hooks|.slack.com/services/T{X:9}/B{X:10}/{a:24}
discord_bot_token          M{a:23}.|G{u:5}.{u:38}
discord_webhook            https://discord|.com/api/webhooks/{d:18}/{u:68}
telegram_bot_token         {d:10}:|AA{u:33}
teams_webhook              https://acme.webhook|.office.com/webhookb2/{h:8}-{h:4}-{h:4}-{h:4}-{h:12}@{h:8}-{h:4}-{h:4}-{h:4}-{h:12}/IncomingWebhook/{h:32}/{h:8}-{h:4}-{h:4}-{h:4}-{h:12}
twilio_api_key             S|K{h:32}
stripe_secret              sk_|live_{a:24}
stripe_test_secret         sk_|test_{a:99}
stripe_restricted          rk_|live_{a:24}
stripe_webhook_secret      wh|sec_{a:32}
square_access_token        EA|AA{u:60}
square_secret              sq0|csp-{u:43}
braintree_token            access_token$|production${x:16}${h:32}
shopify_token              shp|at_{h:32}
shopify_secret             shp|ss_{h:32}
npm_token                  np|m_{a:36}
pypi_token                 py|pi-AgEIcHlwaS5vcmc{u:70}
rubygems_token             ruby|gems_{h:48}
crates_token               c|io{a:32}
nuget_key                  oy|2{3:43}
docker_token               dckr|_pat_{u:27}
openai_project_key         sk|-proj-{u:74}T3BlbkFJ{u:74}
openai_key                 sk|-{a:20}T3BlbkFJ{a:20}
anthropic_key              sk|-ant-api03-{u:93}AA
openrouter_key             sk|-or-v1-{h:64}
huggingface_token          h|f_{a:34}
replicate_token            r8|_{a:37}
groq_key                   gs|k_{a:52}
xai_key                    xa|i-{a:80}
perplexity_key             ppl|x-{a:48}
langsmith_key              lsv2|_pt_{h:32}_{h:10}
langfuse_key               sk|-lf-{h:8}-{h:4}-{h:4}-{h:4}-{h:12}
sendgrid_key               S|G.{u:22}.{u:43}
mailgun_key                key|-{h:32}
mailchimp_key              {h:32}-|us{d:2}
brevo_key                  xkey|sib-{h:64}-{a:16}
newrelic_key               NR|AK-{X:27}
sentry_token               sntry|u_{h:64}
grafana_token              gl|sa_{a:32}_{h:8}
vault_token                hv|s.{u:90}
terraform_token            {a:14}.at|lasv1.{u:67}
doppler_token              dp|.pt.{a:43}
digitalocean_token         do|p_v1_{h:64}
cloudflare_origin_key      v1|.0-{h:24}-{h:146}
fly_token                  Fly|V1 fm2_{b:120}
netlify_token              nf|p_{a:36}
supabase_token             sb|p_{h:40}
planetscale_token          pscale|_tkn_{u:43}
databricks_token           da|pi{h:32}
linear_key                 lin|_api_{a:40}
notion_token               nt|n_{a:46}
airtable_token             pa|t{a:14}.{h:64}
figma_token                fi|gd_{u:40}
postman_key                PM|AK-{h:24}-{h:34}
dynatrace_token            dt0|c01.{X:24}.{X:64}
tailscale_key              ts|key-auth-{a:17}-{a:32}
age_key                    AGE-SECRET|-KEY-1{X:58}
pulumi_token               pu|l-{h:40}
buildkite_token            bk|ua_{h:40}
mapbox_secret              s|k.eyJ{u:84}.{u:22}
facebook_token             EA|A{a:150}
firebase_server_key        AAAA{u:7}:|APA91b{u:134}
jwt                        ey|J{u:33}.ey|J{u:80}.{u:43}
hubspot_token              pat|-na1-{h:8}-{h:4}-{h:4}-{h:4}-{h:12}
onepassword_token          ops|_eyJ{u:250}
contentful_token           CF|PAT-{u:43}
sourcegraph_token          sg|p_{h:40}
fireworks_key      f|w_{a:22}
pinecone_key       pc|sk_{a:6}_{a:63}
tavily_key         tv|ly-dev-{a:32}
elevenlabs_key     sk|_{h:48}
gemini_key         AQ|.Ab8{u:46}
cerebras_key       cs|k-{x:48}
gitlab_routable    gl|pat-{u:27}.01.{x:9}
notion_secret      secret|_{a:43}
readme_key         rd|me_{x:70}
typeform_token     tf|p_{a:40}_{a:16}
sonar_token        sq|u_{h:40}
prefect_key        pn|u_{a:36}
infracost_key      ic|o-{a:32}
harness_token      pa|t.{a:22}.{h:24}.{a:20}
asana_token        1|/{d:16}:{h:32}
slack_cookie       xox|d-{a:40}%2B{a:80}%3D
twitter_bearer     AAAAAAAAAAAAAAAAAAAAA|{a:30}%3D{a:50}
paypal_token       A21|AA{u:80}
plaid_token        access|-production-{h:8}-{h:4}-{h:4}-{h:4}-{h:12}
shippo_token       shippo|_live_{h:40}
openshift_token    sha256|~{u:43}
dropbox_token      sl|.{u:135}
launchdarkly_key   sd|k-{h:8}-{h:4}-{h:4}-{h:4}-{h:12}
swarm_token        SWMTKN|-1-{x:50}-{x:25}
yandex_key         AQ|VN{a:35}
rancher_token      kubeconfig|-user-{x:5}:{x:54}
newrelic_insert    NR|II-{u:32}
resend_key         re|_{a:8}_{a:24}
grafana_legacy     ey|JrIjoi{a:90}
scalingo_token     tk|-us-{u:48}
bcrypt_hash        $2|b$12${a:53}
shadow_hash        $6|${a:16}${a:86}
yescrypt_hash      $y|$j9T${a:22}${a:43}
argon2_hash        $argon2|id$v=19$m=65536,t=3,p=4${a:22}${a:43}
django_hash        pbkdf2|_sha256$600000${a:22}${b:43}=
werkzeug_hash      scrypt|:32768:8:1${a:16}${h:128}
""")

KEYED = _by_key("""
aws_secret_key         {b:40}    AWS_SECRET_ACCESS_KEY secretAccessKey aws_secret_key
aws_session_token      {b:360}   AWS_SESSION_TOKEN sessionToken aws_session_token
azure_openai_key       {h:32}    AZURE_OPENAI_API_KEY api-key Ocp-Apim-Subscription-Key
azure_storage_key      {b:86}==  AccountKey AZURE_STORAGE_ACCOUNT_KEY account_key
cohere_key             {a:40}    COHERE_API_KEY api_key apiKey
mistral_key            {a:32}    MISTRAL_API_KEY api_key
wandb_key              {h:40}    WANDB_API_KEY wandb_api_key
datadog_key            {h:32}    DD_API_KEY datadog_api_key DATADOG_APP_KEY
twilio_auth_token      {h:32}    TWILIO_AUTH_TOKEN authToken auth_token
cloudflare_token       {u:40}    CLOUDFLARE_API_TOKEN cf_api_token X-Auth-Key
heroku_key             {h:8}-{h:4}-{h:4}-{h:4}-{h:12}   HEROKU_API_KEY api_key
oauth_client_secret    {u:32}    client_secret clientSecret OAUTH_CLIENT_SECRET
oauth_refresh_token    {u:48}    refresh_token refreshToken REFRESH_TOKEN
private_token          {u:24}    PRIVATE-TOKEN X-Vault-Token private_token
signed_secret          {p:50}    SECRET_KEY secret_key DJANGO_SECRET_KEY
flask_secret_key       {h:48}    SECRET_KEY app_secret_key
rails_key_base         {h:128}   SECRET_KEY_BASE secret_key_base
encryption_key         {b:43}=   ENCRYPTION_KEY encryption_key master_key
signing_secret         {h:32}    SLACK_SIGNING_SECRET signing_secret webhook_secret
jwt_secret             {a:32}    JWT_SECRET jwtSecret jwt_secret
wireguard_key          {b:43}=   PrivateKey private_key WG_PRIVATE_KEY
env_password           {p:16}    DB_PASSWORD POSTGRES_PASSWORD password
yaml_password          {l:6}{d:4}!{l:3}   password db.password spring.datasource.password
short_password         {l:5}{d:3}  passwd password MYSQL_PASSWORD
passphrase             {l:6}-{l:7}-{d:2}-{l:5}   passphrase SSH_PASSPHRASE
smtp_password          {l:4}{d:2}{U:3}{d:2}{l:4}   SMTP_PASS EMAIL_HOST_PASSWORD smtp_password
totp_secret            {2:32}    totp_secret TOTP_SECRET otp_secret
api_token              {a:28}    API_TOKEN apiToken api_token
access_key             {a:32}    ACCESS_KEY access_key accessKey
credential             {a:40}    credentials credential
session_secret         {h:64}    SESSION_SECRET sessionSecret session_secret
csrf_secret            {a:36}    CSRF_SECRET csrf_secret
""")

_PEM_BODY = "\n".join(["{b:64}"] * 6 + ["{b:30}=="])
_LINES = ("{}", "cat key\n{}\n$ ", '"{}"', "key: |\n{}\n", "+{}")


def _pem(name: str, label: str) -> Kind:
    return Kind(name, f"-----BEGIN {label}-----\n{_PEM_BODY}\n-----END {label}-----", around=_LINES)


AROUND = [
    *(
        _pem(f"pem_{n}", f"{label}PRIVATE KEY{tail}")
        for n, label, tail in (
            ("pkcs8", "", ""),
            ("rsa", "RSA ", ""),
            ("ec", "EC ", ""),
            ("dsa", "DSA ", ""),
            ("openssh", "OPENSSH ", ""),
            ("encrypted", "ENCRYPTED ", ""),
            ("pgp", "PGP ", " BLOCK"),
        )
    ),
    Kind(
        "pem_base64",
        f"-----BEGIN RSA PRIVATE KEY-----\n{_PEM_BODY}\n-----END RSA PRIVATE KEY-----\n",
        wrapped=True,
        around=("client-key-data: {}", '{"tls.key": "{}"}', "  tls.key: {}", "echo {} | base64 -d"),
    ),
    Kind(
        "wrapped_github",
        "gh" + "p_{a:36}",
        wrapped=True,
        around=("  token: {}", '"data": {"value": "{}"}', "echo {} | base64 -d", "printf '{}'"),
    ),
    Kind(
        "wrapped_aws",
        "AK" + "IA{2:16}",
        wrapped=True,
        around=("  id: {}", '"value": "{}"', "echo {} | base64 --decode"),
    ),
    Kind(
        "wrapped_anthropic",
        "sk" + "-ant-api03-{u:93}AA",
        wrapped=True,
        around=("  key: {}", '"value": "{}"', "data:\n  k: {}\n"),
    ),
    Kind("wrapped_jwt", "ey" + "J{u:33}.ey" + "J{u:80}.{u:43}", wrapped=True, around=("  jwt: {}", '{"value": "{}"}')),
    Kind(
        "django_secret_key",
        "{g:50}",
        around=("SECRET_KEY = '{}'", 'SECRET_KEY="{}"', "SECRET_KEY = 'django-insecure-{}'", '"SECRET_KEY": "{}"'),
    ),
    Kind(
        "putty_key",
        "\n".join(["{b:64}"] * 3),
        around=("PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 3\n{}\nPrivate-MAC: 0a",),
    ),
    Kind(
        "url_password",
        "{a:14}",
        around=(
            "postgres://app:{}@db.internal:5432/core",
            "mysql+pymysql://root:{}@10.0.0.5/shop",
            "mongodb+srv://svc:{}@c0.example.net/?w=majority",
            "redis://:{}@cache:6379/0",
            "amqp://guest:{}@mq:5672/%2f",
            "git clone https://bot:{}@git.example.com/a/b.git",
            '{"url": "https://user:{}@proxy.example.com:3128"}',
            "ftp://u1:{}@files.example.com/a",
            "DATABASE_URL=postgresql://u:{}@h/d",
        ),
    ),
    Kind(
        "url_token",
        "{a:40}",
        around=(
            "git remote add o https://x-access-token:{}@git.example.com/a/b",
            "https://api.example.com/v1/x?api_key={}&page=2",
            "GET /cb?access_token={}&state=1 HTTP/1.1",
            "https://e.example.com/v1?a=1&token={}",
            "wss://s.example.com/?auth_token={}",
            "https://api.example.com/data?apikey={}",
            "https://maps.example.com/js?sensor=0&key={}",
            "https://oauth2:{}@git.example.com/a.git",
        ),
    ),
    Kind(
        "sas_signature",
        "{a:41}%2B%2F%3D",
        around=(
            "https://acct.blob.example.net/c/b?sv=2022-11-02&se=2026-01-01&sr=b&sp=r&sig={}",
            '{"sas": "?sv=2022-11-02&ss=b&sig={}&sp=r"}',
        ),
    ),
    Kind(
        "presigned_url",
        "{h:64}",
        around=(
            "https://b.s3.example.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=900&X-Amz-Signature={}",
            '{"url": "https://s.example.com/o?X-Goog-Expires=60&X-Goog-Signature={}"}',
        ),
    ),
    Kind(
        "auth_bearer",
        "{u:40}",
        around=(
            "Authorization: Bearer {}",
            '{"Authorization": "Bearer {}"}',
            "curl -H 'Authorization: Bearer {}' https://x.example.com",
            "headers={'authorization': f'Bearer {}'}",
            "> authorization: bearer {}",
            '-H "Authorization: token {}"',
            "Proxy-Authorization: Bearer {}",
            "request.headers.set('Authorization', 'Bearer {}')",
            "Authorization: SSWS {}",
            "Authorization: Token token={}",
            "Authorization: ApiKey {}",
        ),
    ),
    Kind(
        "auth_basic",
        "{b:38}==",
        around=(
            "Authorization: Basic {}",
            '{"headers": {"Authorization": "Basic {}"}}',
            "--header 'Authorization: Basic {}'",
            "auth = 'Basic {}'",
            '{"auths": {"registry.example.com": {"auth": "{}"}}}',
            "//npm.example.com/:_auth={}",
            '"http.extraheader=AUTHORIZATION: basic {}"',
        ),
    ),
    Kind(
        "header_key",
        "{a:36}",
        around=(
            "X-API-Key: {}",
            "curl -H 'x-api-key: {}' u",
            '{"X-Api-Key": "{}"}',
            "X-Auth-Token: {}",
            "X-Access-Token: {}",
            "Private-Token: {}",
            "apikey: {}",
            "x-goog-api-key: {}",
            "X-RapidAPI-Key: {}",
        ),
    ),
    Kind(
        "session_cookie",
        "{u:48}",
        around=(
            "Cookie: sessionid={}; theme=dark",
            "Set-Cookie: session={}; Path=/; HttpOnly",
            '{"Cookie": "connect.sid=s%3A{}"}',
            "curl -b 'session={}' https://x.example.com",
            "Set-Cookie: __Host-auth={}; Secure",
            "cookie: theme=dark; auth_token={}",
            "Set-Cookie: JSESSIONID={}; Path=/",
            "Cookie: PHPSESSID={}",
        ),
    ),
    Kind(
        "connection_string",
        "{a:18}",
        around=(
            "Server=tcp:db,1433;User ID=sa;Password={};Encrypt=True",
            '"Default": "Host=db;Username=app;Password={};Database=x"',
            "Data Source=db;uid=sa;pwd={};",
            "jdbc:mysql://db/x?user=app&password={}",
            "jdbc:sqlserver://h;user=sa;password={};",
            "host=db user=app password={} dbname=x",
        ),
    ),
    Kind(
        "storage_connection",
        "{b:86}==",
        around=(
            "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={};EndpointSuffix=core.example.net",
            "Endpoint=sb://n.servicebus.example.net/;SharedAccessKeyName=Root;SharedAccessKey={}",
        ),
    ),
    Kind(
        "cli_password",
        "{a:14}",
        around=(
            "curl -u admin:{} https://x.example.com/",
            "curl --user bot:{} https://x.example.com/",
            "mysql -u root -p{} shop",
            "sshpass -p {} ssh a@b",
            "sshpass -p '{}' scp a b",
            "PGPASSWORD={} psql -h db",
            "docker login -u bot -p {} reg.example.com",
            "docker login --username bot --password {}",
            "redis-cli -a {} ping",
            "psql --password={}",
            "mongosh --username a --password {}",
            "az login -u a -p {}",
            "echo '{}' | docker login --password-stdin",
            "wget --http-password={} u",
            "echo {} | sudo -S ls",
            "openssl enc -pass pass:{}",
            "zip -P {} a.zip b",
        ),
    ),
    Kind(
        "netrc",
        "{a:20}",
        around=(
            "machine api.example.com login bot password {}",
            "machine h\n  login u\n  password {}\n",
            "default login a password {}",
        ),
    ),
    Kind("pgpass", "{a:16}", around=("db.example.com:5432:shop:app:{}", "localhost:5432:*:postgres:{}\n")),
    Kind(
        "npmrc",
        "{a:36}",
        around=(
            "//registry.example.com/:_authToken={}",
            "//npm.pkg.example.com/:_authToken={}\nalways-auth=true",
            "npm config set //r.example.com/:_authToken {}",
        ),
    ),
    Kind(
        "named_value",
        "{a:32}",
        around=(
            '{"name": "API_KEY", "value": "{}"}',
            '- name: DB_PASSWORD\n  value: "{}"',
            '<property name="password" value="{}"/>',
            '<add key="ApiKey" value="{}" />',
            "define('DB_PASSWORD', '{}');",
            'setenv("API_TOKEN", "{}", 1)',
            'System.setProperty("db.password", "{}")',
            '{"key": "client_secret", "value": "{}", "enabled": true}',
            "monkeypatch.setenv('SECRET_KEY', '{}')",
            "gh secret set DEPLOY_TOKEN --body {}",
            "heroku config:set API_KEY={}",
        ),
    ),
    Kind(
        "xml_password",
        "{a:16}",
        around=(
            "<password>{}</password>",
            "<db><Password>{}</Password></db>",
            "<apiKey>{}</apiKey>",
            "<client-secret>{}</client-secret>",
        ),
    ),
    Kind(
        "otpauth",
        "{2:32}",
        around=("otpauth://totp/Acme:a?secret={}&issuer=Acme", '{"uri": "otpauth://totp/x?secret={}"}'),
    ),
    Kind(
        "option_password",
        "{a:8}{d:2}{a:4}",
        around=(
            'mycli --password "{}" run',
            "aws rds create-db-instance --master-user-password {} --wait",
            "oc login -u dev -p {}",
            "ldapsearch -x -D cn=admin -w {} -b dc=x",
            "keytool -genkey -storepass {} -alias x",
            "htpasswd -bc .htpasswd bob {}",
            "rabbitmqctl add_user bob {}",
            "ssh-keygen -t ed25519 -N {} -f k",
            "echo 'root:{}' | chpasswd",
            "gh auth login <<< {}",
            "smbclient //h/s -U bob%{}",
            "net user bob {} /add",
            "ConvertTo-SecureString '{}' -AsPlainText -Force",
            "CREATE USER bob WITH PASSWORD '{}';",
            "CREATE USER 'bob'@'%' IDENTIFIED BY '{}';",
            "aws ssm put-parameter --name /db --value {}",
            "http -a bob:{} https://x.example.com",
            "redis-cli --pass {} INFO",
        ),
    ),
    Kind(
        "option_token",
        "{a:4}{d:2}{a:30}",
        around=(
            "vercel deploy --token {} --prod",
            'mycli --access-token "{}"',
            "kubectl --token={} get pods",
            "wandb login {}",
            "snyk auth {}",
            "ngrok config add-authtoken {}",
            "gem push x.gem --key {}",
            "aws configure set aws_session_token {}",
            "::add-mask::{}",
            "Unseal Key 1: {}+/a1",
        ),
    ),
    Kind(
        "device_password",
        "{a:8}{d:2}{a:4}",
        around=(
            "snmpwalk -v2c -c {} 10.0.0.1",
            "snmp-server community {} RO",
            "username admin privilege 15 secret 0 {}",
            "enable password {}",
            " pre-shared-key {}",
            "WIFI:T:WPA;S:Home;P:{};;",
            'ssid="Home"\n  psk="{}"',
            "nmcli dev wifi connect Home password {}",
            "requirepass {}",
        ),
    ),
    Kind(
        "default_value",
        "{a:8}{d:2}{a:4}",
        around=(
            'os.environ.get("DB_PASSWORD", "{}")',
            "process.env.DB_PASSWORD || '{}'",
            "${DB_PASSWORD:-{}}",
            'variable "db_password" {\n  default = "{}"\n}',
            '{"adminPassword": {"value": "{}"}}',
            "DB_PASSWORD=$'{}'",
            "ENV DB_PASSWORD {}",
            "setx DB_PASSWORD {}",
            "| password | {} |",
            '      + password             = "{}"',
            "password: >-\n  {}",
            "password: !!str {}",
            'access_token: str = "{}"',
            "password=&quot;{}&quot;",
            '<entry key="password">{}</entry>',
            '<wsse:Password Type="PasswordText">{}</wsse:Password>',
            "<name>db.password</name><value>{}</value>",
            "password%3D{}%26a%3D1",
            "**Password:** `{}`",
            "creds: bob:{}",
        ),
    ),
    Kind(
        "seed_phrase",
        "{l:5} {l:4} {l:6} {l:5} {l:4} {l:6} {l:5} {l:4} {l:6} {l:5} {l:4} {l:6}",
        around=('mnemonic: "{}"', "seed phrase: {}", 'MNEMONIC="{}"'),
    ),
    Kind(
        "pem_listed",
        "\n".join(f"{n:>6}\t{{b:64}}" for n in range(2, 6)),
        around=(
            "     1\t-----BEGIN RSA PRIVATE KEY-----\n{}\n",
            "$ head -5 k\n     1\t-----BEGIN PRIVATE KEY-----\n{}",
        ),
    ),
    Kind(
        "pem_tail",
        "\n".join(["{b:64}"] * 4),
        around=("$ tail -5 server.key\n{}\n-----END RSA PRIVATE KEY-----\n",),
    ),
    Kind(
        "wrapped_url",
        "postgres|://app:{a:14}@db:5432/x".replace("|", ""),
        wrapped=True,
        around=("  DATABASE_URL: {}", '{"data": {"url": "{}"}}'),
    ),
    Kind(
        "spoken_password",
        "{l:4}{d:2}{U:2}{l:3}{d:2}",
        around=(
            "Username: admin\nPassword: {}",
            "the password is {}",
            "your temporary password is: {}",
            "Password for user app: {}",
            "login with admin / password '{}'",
        ),
    ),
]

_SCHEMES = "postgres postgresql mysql mongodb mongodb+srv redis amqp".split()
RARE = [
    *_by_shape("""
together_key       tgp|_v1_{u:43}
nvidia_key         nv|api-{u:64}
circleci_token     CCI|PAT_{a:22}_{h:40}
fly_org_token      fo|1_{u:43}
supabase_secret    sb|_secret_{u:31}
heroku_token       HR|KU-{u:60}
sentry_org_token   sntrys|_{b:150}
grafana_cloud      gl|c_{b:80}
clojars_token      CLO|JARS_{x:60}
artifactory_key    AK|Cp{a:69}
adobe_secret       p8|e-{x:32}
onepassword_key    A3|-{X:6}-{X:11}-{X:5}-{X:5}-{X:5}
easypost_key       EZ|AK{x:54}
mws_token          amzn|.mws.{h:8}-{h:4}-{h:4}-{h:4}-{h:12}
dnkey              dn|key-{u:26}-{u:52}
duffel_token       duffel|_live_{u:43}
artifactory_ref    cm|Vmd{a:59}
aws_bearer_id      AB|IA{2:16}
aws_context_id     AC|CA{2:16}
alibaba_key_id     LT|AI{x:20}
flutterwave_key    FLW|SECK_TEST-{h:32}-X
frameio_token      fio|-u-{u:64}
fly_machine_token  fm|1r_{b:100}
onepassword_plus   ops|_eyJ{b:250}
"""),
    *(
        Kind(f"wrapped_{label or 'PKCS8 '}key", f"-----BEGIN {label}PRIVATE KEY-----\n{_PEM_BODY}", wrapped=True)
        for label in ("", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "PGP ")
    ),
    *(
        Kind(f"wrapped_{name}", shape.replace("|", ""), wrapped=True)
        for name, shape in (
            ("github_oauth", "gh|o_{a:36}"),
            ("github_app", "gh|s_{a:36}"),
            ("github_fine_grained", "github|_pat_{a:22}_{a:59}"),
            ("openai", "sk|-proj-{u:74}"),
            ("stripe", "sk_|live_{a:99}"),
            ("gitlab", "gl|pat-{u:20}"),
            ("aws_session", "AS|IA{2:16}"),
            ("slack_bot", "xox|b-{d:12}-{d:12}-{a:24}"),
            ("docker_config", '{"auths":{"ghcr.io":{"auth":"{a:24}"}}}'),
            ("docker_config_lines", '{\n  "auths": {"ghcr.io": {"auth": "{a:24}"}}}'),
            ("service_account", '{"type":"service_account","project_id":"p","private_key_id":"{h:40}"}'),
            ("service_account_lines", '{\n  "type": "service_account",\n  "private_key_id": "{h:40}"}'),
            *((f"{scheme}_url", f"{scheme}://app:{{a:14}}@db.example.com/x") for scheme in _SCHEMES),
            ("slack_user", "xox|p-{d:12}-{d:12}-{d:12}-{h:32}"),
        )
    ),
]
"""Kinds that have a rule and stand outside the measured corpus."""

KINDS: tuple[Kind, ...] = (*SHAPED, *KEYED, *AROUND)
